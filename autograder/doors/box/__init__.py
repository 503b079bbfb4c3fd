"""The box around a student's code when an instructor grades: what it may see, use and reach, and how long it lives.

rules        what is in the box, its limits, and whether this machine can make one
kernels      the grader's side: a Jupyter kernel manager whose kernel is in a box
server       the process that has imported what notebooks import, and forks each kernel into a box of its own
full         a box by bubblewrap; the student's kernel comes into it
  namespaces the few system calls for that which Python has no names for
reduced      where bubblewrap can make none: a process gives up what it must not have
  landlock   files, signals
  calls      system calls that need no file
"""
