"""nbgrader's settings for this course. An instructor edits nothing here: run nbgrader in this folder."""

from autograder.doors.nbgrader_settings import configure

configure(get_config(), course_id="just-in-time")  # noqa: F821 (nbgrader puts it there)
