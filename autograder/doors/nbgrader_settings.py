"""nbgrader's settings for a course whose exercises are graded by this package, from one import.

A course's `nbgrader_config.py` says, and need say no more:

    from autograder.doors.nbgrader_settings import configure

    configure(get_config(), course_id="my-course")
"""

import os
import sys
import warnings

from nbconvert.preprocessors import ClearMetadataPreprocessor, CSSHTMLHeaderPreprocessor
from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearOutput,
    GetGrades,
    IgnorePattern,
    LimitOutput,
    SaveAutoGrades,
)
from sqlalchemy.exc import SAWarning
from traitlets.config import Config

from autograder.not_begun import STUB
from autograder.versions import unsupported

from .feedback import FILTERS, TEMPLATES, HideInstructor, SafePage
from .hidden_tests import HideHiddenTests
from .nbgrader_steps import FeedbackExporter, RestoreRelease, RunNotebook, SubmissionExporter
from .output_size import LimitBytes


def configure(c: Config, course_id: str) -> None:
    """Write the settings into `c`, which nbgrader's `get_config()` returns; what is set after that wins.

    c          the configuration that nbgrader is about to read.
    course_id  the name of the course in nbgrader's gradebook and pages.

    Ends the program with one line where this Python or this JAX is not supported.
    """
    if line := unsupported():
        sys.exit(f"nbgrader_config.py: {line}")

    # nbgrader starts `alembic` from the PATH, where it is not when the environment has not been activated.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]

    warnings.simplefilter("ignore", SAWarning)  # three of nbgrader's own queries, harmless, one warning a student

    c.CourseDirectory.course_id = course_id
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "exercises"
    # Whatever lies beside a solution is copied to the students: its text form holds the answers.
    c.CourseDirectory.ignore = [".ipynb_checkpoints", "__pycache__", "*.py", "*.pyc"]

    c.ClearSolutions.code_stub = {"python": f'raise NotImplementedError("{STUB}")'}

    c.Autograde.exporter_class = SubmissionExporter
    c.Autograde.sanitize_preprocessors = [ClearOutput, RestoreRelease, CheckCellMetadata]
    c.Autograde.autograde_preprocessors = [
        RunNotebook,
        IgnorePattern,
        ClearMetadataPreprocessor,
        LimitOutput,
        LimitBytes,
        SaveAutoGrades,
        AssignLatePenalties,
        CheckCellMetadata,
    ]
    # nbgrader gives no points to a cell that writes to standard error, and XLA logs there.
    c.IgnorePattern.enabled = True
    c.IgnorePattern.pattern = r"[\s\S]"

    # The student's page and the formgrader's: nothing in them runs a script of a student's or needs a network.
    c.GenerateFeedback.exporter_class = FeedbackExporter
    c.GenerateFeedback.preprocessors = [GetGrades, HideHiddenTests, HideInstructor, CSSHTMLHeaderPreprocessor]
    c.HTMLExporter.preprocessors = [SafePage]
    c.HTMLExporter.filters = FILTERS
    c.HTMLExporter.extra_template_basedirs = TEMPLATES
    c.HTMLExporter.sanitize_html = True  # with the filter above
