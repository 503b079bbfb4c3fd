"""The learner's workbench: the command `course`, and a room of one's own to work in.

command_line   the commands: what each is asked, what it prints, how it ends
outline        the units, their tasks, checks and hints, read off the exercises
room           the learner's folder: copies of lessons and exercises, kept up with the course
progress       what is done, and the one thing to do next
course_map     the map in the terminal
first_page     the map as the room's first page
in_notebook    what a check in a notebook of the room sets going
run_checks     runs the checks of the learner's notebook
watch          runs them again when it is saved
hints, solution, reset, export, doctor, jupyterlab    one command each
"""
