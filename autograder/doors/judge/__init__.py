"""Two rooms: a check that is judged runs in a kernel of its own, the judge, in which no line of a student's is run.

Where the check names what a student's cell defines, the judge has a stand-in; a call of it is done in the student's
kernel, the box, and its result comes back as plain data. Whoever has taken over the box can say wrong results there,
and nothing more: the check's code, its inputs, its reference and its points are in the other process.

rooms.csv    which graded cell is judged how
table        reads it
two_rooms    the grader's side: runs each cell in its room
room         in either kernel: what the grader asks of it
peer         either end of the link: asks, and answers
lent         what a kernel has lent to the other one, and what the judge lends at all
settings     JAX's settings around a call, and what is printed in it
changes      what a call has changed of its arguments
alone        the process in which a prediction is made, the only one here that runs a student's cell
stand_ins    what stands for a thing in the other kernel
values       values as JSON and raw bytes, and back, with nothing taken on trust
layouts      meshes, shardings, and what each of several devices holds
identity     arrays that are one object in both kernels
programs     what JAX traces, as plain data
kernels      the same of Pallas kernels
spread_programs  the same of what is said of several devices
candidates   an answer's function as a candidate of `speedup`
sources      a check's function, as the code that travels into the box
beside       functions of a check that are run in the box, because they look at its process
names        what crosses by its name alone
replaced     what a check puts in the place of the course's own for a while
errors       an exception as it crosses
link         messages on a socket, bounded
"""
