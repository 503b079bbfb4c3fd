"""What an answer may use when it is graded, and who puts the course's own things back.

    words       the lists: modules, builtins and attributes that an answer may use, and those that it may not
    course      what a release holds: the names of its locked cells, what they import, what its checks bind
    names       which are the notebook's, a function's own, a library's, the course's
    together    what all cells of a student's do with them
    rules       what may be used, and how: attributes, calls, names, annotations
    language    reads a cell, without running it: the first thing in it that an answer may not use
    magics      what IPython knows and Python does not: a cell as Python
    judge       all cells of a student together: what of each is run, and what is said of the others
    parts       of a cell in which something is refused, what can do without it
    cells       a notebook: which of its cells are the student's
    names_of_checks  in the kernel: names that checks alone bind are no answer's
    names_of_answers  in the kernel: a helper with a name of the course's is its cell's alone
    asking      in the kernel: changes a cell so that it asks values whose they are before it writes on them
    own_objects  what it asks them
    plain_texts  the same of names and texts that an answer puts together
    memory      the same of objects that NumPy asks where their numbers are
    closing     in the kernel and its measuring processes: what libraries do with texts and memory, closed
    made_classes  the same: a class is looked at when it is made, whoever makes it
    builtin_types  how both change what Python's own types do
    contents    what is in a thing of the course's, and how it is put back
    restorer    in the kernel: after a student's cell, puts back what it changed of the course's own

The rules are a language for answers, and no proof (see autograder/THREATS.md). What they do not know is refused.
"""
