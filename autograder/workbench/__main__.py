"""`python -m autograder.workbench` is `course`, where the environment's commands are not on the PATH."""

from .command_line import main

main()
