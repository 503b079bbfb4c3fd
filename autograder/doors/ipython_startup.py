# Run by every IPython of the environment when it starts. In a notebook of the course, a check that is run first after a
# restart of the kernel then says which cells it needs; in any other nothing is changed, and no name is left behind.
__import__("autograder.doors.cell_messages", fromlist=["_"]).register_in_the_course()
