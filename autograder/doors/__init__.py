"""What the course is reached by: the pytest plugin, nbgrader's steps, and the build of the notebooks."""
