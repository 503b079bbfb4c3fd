"""The last cell of each lesson and exercise: where to go from here.

Links are relative, so that they lead to the same places in the learner's room, in the course's folder and on a page
that shows the repository.
"""

import re
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

ID = "ways-on"
_TITLE = re.compile(r"^# # (\d\d · .+?)(?::.*)?$", re.MULTILINE)


def ways_on(text: Path) -> NotebookNode | None:
    """The cell for the notebook of this text, `lessons/NN_name.py` or `solutions/NN_name/name.py`; None for others.

    It is not to be edited: nobody's answer can get lost in it.
    """
    if text.parent.name == "lessons":
        lessons, here, name = text.parent, "", text.stem
        before, after = _beside(lessons, name)
        first = f"← [{_title(before)}]({before.stem}.ipynb)" if before else ""
    elif text.parent.parent.name == "solutions":
        lessons, here, name = text.parents[2] / "lessons", "../", text.parent.name
        before, after = _beside(lessons, name)
        lesson = lessons / f"{name}.py"
        first = f"↑ [Lesson {_title(lesson)}](../../lessons/{name}.ipynb)" if lesson.is_file() else ""
    else:
        return None
    to_lessons = "../../lessons/" if here else ""
    parts = [first, f"[All units]({here}../README.md#the-units)"]
    parts.append(f"[{_title(after)}]({to_lessons}{after.stem}.ipynb) →" if after else "This was the last unit.")
    cell = new_markdown_cell("---\n\n" + " &nbsp;|&nbsp; ".join(filter(None, parts)), id=ID)
    cell.metadata = NotebookNode(editable=False, deletable=False)
    return cell


def _beside(lessons: Path, name: str) -> tuple[Path | None, Path | None]:
    """The texts of the lessons before and after the one of this name; None where there is none."""
    texts = sorted(lessons.glob("[0-9][0-9]_*.py"))
    earlier = [text for text in texts if text.stem < name]
    later = [text for text in texts if text.stem > name]
    return earlier[-1] if earlier else None, later[0] if later else None


def _title(lesson: Path) -> str:
    """`05 · The cache`; what stands behind a colon is left out."""
    found = _TITLE.search(lesson.read_text(encoding="utf-8"))
    return found[1] if found else lesson.stem
