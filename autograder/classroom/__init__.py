"""A whole class is graded at once, on this machine or on many, by the same code that `nbgrader autograde` runs.

    command      the command line: `grade`
    roll         who has handed in what, and which of it has no grade yet
    engine       Dask: hands the submissions out, takes them back, tries again where a worker died
    local_worker what Dask does first in each worker of this machine
    execution    what a worker does: a notebook's text in, the executed notebook's text out
    cores        a core for each worker, and nobody else beside a measured time
    replay       the one writer: nbgrader's own grading, given the executed notebook instead of a kernel
    grading      all of it, in order
    screen       what a person sees: progress, and the table at the end
    marks        what the points say of the tasks
    report       the same as a page

A worker needs the installed package and nothing else: no folder of the course, no gradebook, no shared disk.
"""
