"""Honest students whose notebooks were spoilt on the way: each ends in the grade that a fair human would give.

Nobody here wants to cheat. Programs strip what they do not know, files are cut off, cells are copied, moved and lost.
The answers to both tasks are right; what is left of them counts.
"""

import json
import os
import re
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from _tiny_unit import ALL, ANSWERS, NAME, ONLY_G, UNIT, handed_in, make_course
from nbgrader.api import Gradebook

from autograder.doors.box.rules import why_not
from autograder.doors.graded_notebook import read_notebook
from autograder.not_begun import STUB

pytestmark = [
    pytest.mark.once,
    pytest.mark.thorough,
    pytest.mark.notebooks,
    pytest.mark.xdist_group("faults"),
]

NOTHING = 0.0


def honest():
    """The honest notebook, as a `dict`."""
    return json.loads(json.dumps(handed_in()))


FAULTS = {}  # name -> (the points that are left, a function: the notebook -> the file's text or bytes, or None)
FOLDERS = {}  # name -> (the points that are left, a function: the notebook, the folder -> None; it writes all files)


def fault(points, into=FAULTS):
    def add(spoil):
        into[spoil.__name__] = (points, spoil)
        return spoil

    return add


def folder_fault(points):
    return fault(points, FOLDERS)


def cell_of(notebook, name):
    return next(cell for cell in notebook["cells"] if cell.get("id") == name)


def code(source, **more):
    return {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None} | more


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"in": [value]}
    return value


def nameless(n):
    for cell in n["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)


# The file


@fault(NOTHING)
def empty_file(n):
    return b""


@fault(NOTHING)
def blank_file(n):
    return b" \n\t\n"


@fault(NOTHING)
def cut_off(n):
    return json.dumps(n)[:-40]


@fault(NOTHING)
def an_html_page(n):
    return "<!DOCTYPE html><html><body>Sign in to download powers.ipynb</body></html>"


@fault(NOTHING)
def a_zip(n):
    return b"PK\x03\x04" + bytes(range(256)) * 4


@fault(NOTHING)
def python_text(n):
    return "\n\n".join(ANSWERS.values())


@fault(NOTHING)
def another_json(n):
    return json.dumps([n])


@fault(NOTHING)
def nested_deeply(n):
    return "[" * 200_000


@fault(NOTHING)
def a_number(n):
    return "17"


@fault(NOTHING)
def conflict_of_versions(n):
    text = json.dumps(n, indent=1)
    return f"<<<<<<< HEAD\n{text}\n=======\n{text}\n>>>>>>> mine\n"


@fault(ALL)
def byte_order_mark(n):
    return json.dumps(n).encode("utf-8-sig")


@fault(ALL)
def utf_16(n):
    return json.dumps(n).encode("utf-16")


@fault(ALL)
def utf_32(n):
    return json.dumps(n).encode("utf-32")


@fault(ALL)
def blank_lines_around(n):
    return "\n\n" + json.dumps(n, indent=4) + "\n\n\n"


@fault(ALL)
def lines_of_windows(n):
    return json.dumps(n, indent=1).replace("\n", "\r\n")


@fault(ALL)
def not_a_number(n):
    n["metadata"]["grade"] = float("nan")


# The notebook


@fault(ALL)
def no_kernel_named(n):
    n["metadata"] = {}


@fault(ALL)
def no_metadata(n):
    del n["metadata"]


@fault(ALL)
def metadata_is_a_list(n):
    n["metadata"] = []


@fault(ALL)
def a_kernel_of_another_language(n):
    n["metadata"] = {"kernelspec": {"name": "julia-1.9", "display_name": "Julia", "language": "julia"}}


@fault(ALL)
def saved_widgets(n):
    state = {"application/vnd.jupyter.widget-state+json": {"state": {"x": 1}, "version_major": 2}}
    n["metadata"]["widgets"] = state


@fault(ALL)
def older_minor_format(n):
    n["nbformat_minor"] = 2
    for cell in n["cells"]:
        del cell["id"]


@fault(ALL)
def no_minor_format(n):
    del n["nbformat_minor"]


@fault(ALL)
def minor_format_of_the_future(n):
    n["nbformat_minor"] = 99
    n["cells"][0]["mood"] = "new"


def as_format_3(n, **more):
    cells = [
        {"cell_type": "code", "input": c["source"], "language": "python", "outputs": [], "metadata": c["metadata"]}
        for c in n["cells"]
    ]
    return json.dumps(
        {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [c | more for c in cells]}]}
    )


@fault(ALL)
def format_3(n):
    return as_format_3(n)


@fault(NOTHING)
def format_of_the_future(n):
    n["nbformat"] = 9


@fault(NOTHING)
def no_cells(n):
    del n["cells"]


@fault(NOTHING)
def an_empty_notebook(n):
    n["cells"] = []


@fault(ALL)
def five_thousand_empty_cells(n):
    n["cells"] += [{"cell_type": "code", "source": "", "metadata": {}, "outputs": [], "execution_count": None}] * 5000


# Cells


@fault(ALL)
def sources_as_lists(n):
    for cell in n["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)


@fault(ONLY_G)
def no_source(n):
    del cell_of(n, "f")["source"]


@fault(ONLY_G)
def source_is_null(n):
    cell_of(n, "f")["source"] = None


@fault(ALL)
def no_outputs(n):
    for cell in n["cells"]:
        del cell["outputs"], cell["execution_count"]


@fault(ALL)
def outputs_are_null(n):
    for cell in n["cells"]:
        cell["outputs"] = None


@fault(ALL)
def outputs_of_another_shape(n):
    cell_of(n, "f-check")["outputs"] = [{"output_type": "stream"}, {"text": 3}, "done"]


@fault(ALL)
def execution_counts_as_text(n):
    for cell in n["cells"]:
        cell["execution_count"] = "12"


@fault(ALL)
def twenty_megabytes_of_output(n):
    cell_of(n, "f-check")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 20_000_000}]


@fault(ALL)
def an_old_error_in_a_check(n):
    error = {"output_type": "error", "ename": "AssertionError", "evalue": "", "traceback": ["AssertionError"]}
    cell_of(n, "g-check")["outputs"] = [error]


@fault(ALL)
def ids_are_gone(n):
    for cell in n["cells"]:
        del cell["id"]


@fault(ALL)
def ids_are_all_alike(n):
    for cell in n["cells"]:
        cell["id"] = "cell"


@fault(ALL)
def ids_that_are_none(n):
    for number, cell in enumerate(n["cells"]):
        cell["id"] = ["", 7, None, "a b", "x" * 100][number]


@fault(ALL)
def names_are_gone(n):
    for cell in n["cells"]:
        cell["metadata"] = {}


@fault(ALL)
def names_and_ids_are_gone(n):
    for cell in n["cells"]:
        cell["metadata"] = {}
        del cell["id"]


@fault(ALL)
def metadata_is_null(n):
    for cell in n["cells"]:
        cell["metadata"] = None


@fault(ALL)
def names_are_text(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"] = "mine"


@fault(ALL)
def names_are_numbers(n):
    for number, cell in enumerate(n["cells"]):
        cell["metadata"]["nbgrader"]["grade_id"] = number


@fault(ALL)
def names_of_an_old_schema(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"]["schema_version"] = 1
        cell["metadata"]["nbgrader"].pop("task")


@fault(ALL)
def names_of_a_schema_to_come(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"]["schema_version"] = "next"


@fault(ALL)
def points_are_words(n):
    cell_of(n, "f-check")["metadata"]["nbgrader"]["points"] = "many"


@fault(ALL)
def points_are_negative(n):
    cell_of(n, "f-check")["metadata"]["nbgrader"]["points"] = -3


@fault(ALL)
def everything_is_locked(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"]["locked"] = True


@fault(ALL)
def nothing_is_graded(n):
    for cell in n["cells"]:
        cell["metadata"]["nbgrader"] |= {"grade": False, "solution": False}


@fault(ALL)
def answers_are_text(n):
    for name in ANSWERS:
        cell_of(n, name)["cell_type"] = "markdown"


@fault(ALL)
def a_cell_of_a_type_that_is_none(n):
    cell_of(n, "f")["cell_type"] = "heading"


@fault(ALL)
def checks_are_lost(n):
    n["cells"] = [cell for cell in n["cells"] if not cell["id"].endswith("-check")]


@fault(ALL)
def setup_is_lost(n):
    del n["cells"][0]


@fault(ONLY_G)
def an_answer_is_lost(n):
    n["cells"].remove(cell_of(n, "f"))


@fault(ALL)
def upside_down(n):
    n["cells"].reverse()


@fault(ALL)
def an_answer_in_two_cells(n):
    answer, first = cell_of(n, "g"), "def cube(x):\n    return x * x * x"
    n["cells"].insert(3, {**answer, "id": "upper", "metadata": {}, "source": first})
    answer["source"] = "g = cube"


@fault(ALL)
def both_answers_in_one_cell(n):
    cell_of(n, "f")["source"] += "\n\n" + ANSWERS["g"]
    cell_of(n, "g")["source"] = "# see above"


@fault(ALL)
def an_answer_in_a_cell_of_its_own(n):
    own = {**cell_of(n, "f"), "id": "own", "metadata": {}}
    cell_of(n, "f")["source"] = "# below"
    n["cells"].insert(2, own)


def _stub_again(n, name):
    """The stub as it was handed out; `name`'s answer, in a cell of its own."""
    answer = cell_of(n, name)
    own = {**answer, "id": "own", "metadata": {}}
    answer["source"] = f'def {name}(x):\n    raise NotImplementedError("{STUB}")'
    return own


@fault(ALL)
def an_answer_above_its_stub(n):
    n["cells"].insert(0, _stub_again(n, "f"))


@fault(ALL)
def an_answer_below_its_check(n):
    n["cells"].append(_stub_again(n, "f"))


@fault(ALL)
def a_line_beside_an_answer_that_shows_what_nobody_may_see(n):
    cell_of(n, "f")["source"] += "\n\nname = input('your name? ')\nprint(name.upper(), globals().keys())"


@fault(ALL)
def a_cell_to_try_things_in_that_ends_the_kernel(n):
    n["cells"].insert(2, code("doubled = [1]\nwhile True:\n    doubled += doubled"))


@fault(ALL)
def line_ends_of_windows(n):
    for cell in n["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n")


@fault(ALL)
def a_copied_answer(n):
    n["cells"].insert(1, {**cell_of(n, "f"), "source": "def f(x):\n    return 0"})


@fault(ALL)
def a_copied_check(n):
    n["cells"].append(dict(cell_of(n, "f-check")))


@fault(ALL)
def everything_twice(n):
    n["cells"] += [dict(cell) for cell in n["cells"]]


@fault(ALL)
def a_lone_surrogate(n):
    cell_of(n, "f")["source"] += "\nnote = '\ud800'"
    return json.dumps(n)


@fault(ONLY_G)
def a_null_in_an_answer(n):
    cell_of(n, "f")["source"] += "\0"


@fault(ALL)
def blanks_that_do_not_break(n):
    cell_of(n, "f")["source"] += "\n# a\u00a0note\u200b\u2028and more"


@fault(ONLY_G)
def a_mark_in_an_answer(n):
    cell_of(n, "f")["source"] = "\ufeff" + ANSWERS["f"]


@fault(ALL)
def carriage_returns(n):
    for name in ANSWERS:
        cell_of(n, name)["source"] = ANSWERS[name].replace("\n", "\r\n")


@fault(ALL)
def a_line_of_a_hundred_kilobytes(n):
    cell_of(n, "f")["source"] += "\n# " + "x" * 100_000


@fault(ONLY_G)
def an_answer_that_is_no_python(n):
    cell_of(n, "f")["source"] = "the square of x"


@fault(ONLY_G)
def brackets_without_end(n):
    cell_of(n, "f")["source"] = "f = " + "(" * 5000


@fault(ALL)
def magics_left_standing(n):
    cell_of(n, "f")["source"] += "\n%timeit -n1 -r1 f(2)"
    cell_of(n, "g")["source"] += "\n%matplotlib inline\n!echo done"


@fault(ALL)
def an_attachment_in_a_code_cell(n):
    cell_of(n, "f")["attachments"] = {"a.png": {"image/png": ""}}


# Around an answer


@fault(ALL)
def debugged_afterwards(n):
    cell_of(n, "f")["source"] += "\nf(3)\n%debug"


@fault(ALL)
def types_of_python_3_12(n):
    if sys.version_info >= (3, 12):
        cell_of(n, "f")["source"] = "type Number = int | float\n\n\ndef f(x: Number) -> Number:\n    return x * x"
        cell_of(n, "g")["source"] = "def g[T](x: T) -> T:\n    return x * x * x"


@fault(ALL)
def a_sum_of_ones_own(n):
    """Tried out below the answer, with names that are Python's; the answer needs none of them."""
    cell_of(n, "f")["source"] += "\n\n\nsum = 0\nfor i in range(3):\n    sum += f(i)\nprint(sum)"
    cell_of(n, "g")["source"] += "\n\n\nlist = [g(i) for i in range(3)]\nlist.append(g(3))\nprint(list)"


@fault(ALL)
def warnings_are_errors(n):
    """In the cell of f; in that of g stands a text of which Python warns."""
    cell_of(n, "f")["source"] = "import warnings\n\nwarnings.simplefilter('error')\n\n\n" + ANSWERS["f"]
    cell_of(n, "g")["source"] = 'def g(x):\n    """Returns $x\\^3$."""\n    return x * x * x'


@fault(ALL)
def numpy_raises_for_all(n):
    """In the cell of f; g calculates something that overflows, and does not need it."""
    cell_of(n, "f")["source"] = "import numpy as np\n\nnp.seterr(all='raise')\n\n\n" + ANSWERS["f"]
    cell_of(n, "g")["source"] = (
        "import numpy as np\n\n\ndef g(x):\n    spare = np.array([1e300]) * 1e300\n    return x * x * x"
    )


@fault(ALL)
def signed_by_its_author(n):
    cell_of(n, "f")["source"] = "__author__ = 'Ada'\n__version__ = '1.0'\n\n\n" + ANSWERS["f"]


@fault(ALL)
def an_import_too_many(n):
    """Left over from a look at something; the answer has no need of it, and neither of the help it asked for."""
    cell_of(n, "f")["source"] = "from pprint import pprint\n\n\n" + ANSWERS["f"] + "\n\n\nhelp(f)"


# The folder


def put(notebook, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook))
    return path


def blank():
    """The notebook as it was handed out."""
    stubs = {name: f'def {name}(x):\n    raise NotImplementedError("{STUB}")' for name in ANSWERS}
    return json.loads(json.dumps(handed_in(stubs)))


@folder_fault(ALL)
def name_in_capitals(n, folder):
    put(n, folder / f"{NAME.capitalize()}.IPYNB")


@folder_fault(ALL)
def name_of_another_alphabet(n, folder):
    put(n, folder / "Übung 幂 – Lösung.ipynb")


@folder_fault(ALL)
def name_with_a_backslash(n, folder):
    """Windows' archive, unpacked by a program that takes the whole path for a name."""
    put(n, folder / f"{UNIT}\\{NAME}.ipynb")


@folder_fault(ALL)
def name_of_two_hundred_letters(n, folder):
    put(n, folder / ("x" * 240 + ".ipynb"))


@folder_fault(ALL)
def saved_as_json(n, folder):
    """As Safari saves it."""
    put(n, folder / f"{NAME}.json")


@folder_fault(ALL)
def saved_as_txt(n, folder):
    """As GitHub's raw page is saved by some; there is also an essay."""
    put(n, folder / f"{NAME}.txt")
    put("I liked it.", folder / "essay.txt")


@folder_fault(ALL)
def no_suffix(n, folder):
    put(n, folder / NAME)


@folder_fault(ALL)
def a_zip_with_the_notebook(n, folder):
    """It is unpacked."""
    with zipfile.ZipFile(folder / f"{NAME}.zip", "w") as archive:
        archive.writestr(f"{NAME}.ipynb", json.dumps(n))


@folder_fault(NOTHING)
def an_archive_of_another_kind(n, folder):
    """Somebody must unpack it; the page says that it is there."""
    (folder / f"{NAME}.rar").write_bytes(b"Rar!\x1a\x07\x01\0" + json.dumps(n).encode())


@folder_fault(ALL)
def a_folder_of_the_notebooks_name(n, folder):
    """A program has unpacked it into a folder."""
    put(n, folder / f"{NAME}.ipynb" / f"{NAME}.ipynb")


@folder_fault(ALL)
def a_copy_beside_the_release(n, folder):
    """The student worked in a copy, and handed in the untouched one, too."""
    put(blank(), folder / f"{NAME}.ipynb")
    put(n, folder / f"{NAME}-Copy1.ipynb")


@folder_fault(ALL)
def a_copy_beside_an_empty_file(n, folder):
    """OneDrive made an empty placeholder and kept the text under another name."""
    put("", folder / f"{NAME}.ipynb")
    put(n, folder / f"{NAME}-LAPTOP-7 (conflicted copy).ipynb")


@folder_fault(ALL)
def the_second_download_is_the_right_one(n, folder):
    put(blank(), folder / f"{NAME} (1).ipynb")
    put(n, folder / f"{NAME} (2).ipynb")


@folder_fault(ALL)
def an_older_copy_beside(n, folder):
    put(n, folder / f"{NAME}.ipynb")
    put(blank(), folder / f"{NAME} (1).ipynb")
    put("{", folder / "scratch.ipynb")
    put("{", folder / "Untitled.ipynb" / "Untitled.ipynb")


@folder_fault(ALL)
def only_an_autosaved_one(n, folder):
    put(n, folder / ".ipynb_checkpoints" / f"{NAME}-checkpoint.ipynb")


@folder_fault(ALL)
def another_name_and_a_huge_number(n, folder):
    """Python reads no number of so many digits."""
    put(n, folder / "my powers.ipynb")
    put('{"cells": [], "size": 1' + "0" * 5000 + "}", folder / "log.ipynb")


@folder_fault(ALL)
def a_name_that_is_no_text(n, folder):
    """The name of the file is in code page 437."""
    put(n, folder / os.fsdecode(b"L\x94sung.ipynb"))


@folder_fault(NOTHING)
def not_yet_downloaded(n, folder):
    (folder / f".{NAME}.ipynb.icloud").write_bytes(b"bplist00\xd3\x01\x02")


@folder_fault(ALL)
def odd_things_beside(n, folder):
    put(n, folder / f"{NAME}.ipynb")
    os.mkfifo(folder / "pipe")
    (folder / "again").symlink_to(folder, target_is_directory=True)
    (folder / "gone").symlink_to("/nowhere/at all")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(folder)
        listening.bind("s")
        os.chdir(here)
    put("a", Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.txt")))
    put("a", folder / "a\nline [b]*?.txt")
    put("a", folder / ("y" * 255))
    put("a", folder / "empty" / "x.txt")


@folder_fault(ALL)
def a_folder_named_like_the_page(n, folder):
    put(n, folder / f"{NAME}.ipynb")
    put("a", folder / f"{NAME}.html" / "style.css")


@folder_fault(ALL)
def a_saved_page_beside(n, folder):
    put(n, folder / f"{NAME}.ipynb")
    put("<h1>mine", folder / f"{NAME}.html")
    put("a", folder / f"{NAME}_files" / "style.css")


@folder_fault(ALL)
def a_sparse_file_beside(n, folder):
    """A core dump: 300 MB, of which nothing is on the disk."""
    put(n, folder / f"{NAME}.ipynb")
    with open(folder / "core", "wb") as core:
        core.truncate(300 * 2**20)


@folder_fault(ALL)
def an_environment_beside(n, folder):
    put(n, folder / f"{NAME}.ipynb")
    for i in range(2000):
        put("a = 1", folder / ".venv" / "lib" / f"p{i % 50}" / f"m{i}.txt")
    (folder / ".venv" / "bin").mkdir()
    (folder / ".venv" / "bin" / "python").symlink_to("/usr/bin/python3")
    (folder / ".venv" / "lib64").symlink_to("lib")


@folder_fault(ALL)
def a_repository_beside(n, folder):
    """The objects of git can only be read, and so can the folder."""
    put(n, folder / f"{NAME}.ipynb")
    one = put("x", folder / ".git" / "objects" / "ab" / "cdef")
    one.chmod(stat.S_IRUSR)
    one.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)


@folder_fault(ALL)
def permissions_that_forbid_all(n, folder):
    """An archive without permissions was unpacked: whoever has done it may not even look."""
    put(n, folder / f"{NAME}.ipynb").chmod(0)
    put("a", folder / "data" / "a.txt").parent.chmod(0)
    folder.chmod(0)
    folder.parent.chmod(0)


@folder_fault(ALL)
def names_of_modules_beside(n, folder):
    put(n, folder / f"{NAME}.ipynb")
    for name in (
        "math.py",
        "numpy.py",
        "autograder/__init__.py",
        "sitecustomize.py",
        "jupyter_config.py",
        "nbgrader.log",
    ):
        put("1 / 0", folder / name)


@folder_fault(ALL)
def times_of_other_centuries(n, folder):
    path = put(n, folder / f"{NAME}.ipynb")
    os.utime(path, (-(10**9), -(10**9)))
    os.utime(put("a", folder / "a.txt"), (2**34, 2**34))
    put("9999-12-31 23:59:59 -1200\n", folder / "timestamp.txt")


@folder_fault(ALL)
def a_timestamp_that_is_a_folder(n, folder):
    put(n, folder / f"{NAME}.ipynb")
    put("x", folder / "timestamp.txt" / "x")


@folder_fault(ALL)
def two_names_for_one_file(n, folder):
    """A drive that keeps equal files once."""
    path = put(n, folder / f"{NAME}.ipynb")
    os.link(path, folder / "notes.txt")
    os.link(path, folder / f"{NAME} copy.ipynb")


STUDENTS = (  # of some a pattern is made that fits the next
    "Zoë O'Neill",
    "-force",
    "a+b [c]",
    "a[b]",
    "ab",
    "wh?",
    "who",
    "*",
    "Müller, Jürgen (12345)_assignsubmission_file_",
    "u\u0308ber",
    "Анна 🎓",
    'say "hi" $HOME; `ls` & <b>',
    "100% {student_id} %s",
    " ada ",
    "l" * 200,
    UNIT,
    "back\\slash",
    "zz_last",
)


def strangers(room):
    """Lay down what is in the place of a submission, and is none: names that cannot be written down, and no folders."""
    text = json.dumps(honest()).encode()
    for student in (os.fsdecode(b"M\x81ller"), "two\nlines", "__MACOSX"):
        room.submit(student, text)
    for student in ("a_file", "a_link"):
        (room.root / "submitted" / student).mkdir()
    (room.root / "submitted" / "a_file" / UNIT).write_bytes(text)
    (room.root / "submitted" / "a_link" / UNIT).symlink_to(room.root / "submitted" / "zz_last" / UNIT)
    for name in (".DS_Store", "grades (1).csv"):
        (room.root / "submitted" / name).write_bytes(b"")
    return 5


@fault(ALL)
def saved_as_ansi(n):
    """Windows' Notepad: the file is in code page 1252, and a comment has an umlaut."""
    cell_of(n, "f")["source"] += "\n# für später – fertig"
    return json.dumps(n, ensure_ascii=False).encode("cp1252")


@fault(ALL)
def one_byte_damaged(n):
    """A bit has flipped, in an old output."""
    cell_of(n, "f-check")["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "a long line @ of words"}]
    return json.dumps(n).encode().replace(b"@", b"\xc0")


@fault(ALL)
def nulls_at_the_end(n):
    """The machine lost its power: the file has its length, and the last block was never written."""
    return json.dumps(n).encode() + b"\0" * 4096


@fault(ALL)
def the_rest_of_a_longer_file(n):
    """A program wrote over a longer file and did not cut it: behind the notebook stands the old one's end."""
    text = json.dumps(n, indent=1)
    return text + text[-300:]


@fault(ALL)
def the_same_twice(n):
    """Appended instead of replaced."""
    return json.dumps(n) + "\n" + json.dumps(n)


@fault(ALL)
def the_newer_behind_the_older(n):
    """Appended instead of replaced, and in the older one an answer is not there yet."""
    text = json.dumps(n)
    cell_of(n, "f")["source"] = "raise NotImplementedError"
    return json.dumps(n) + text


@fault(ALL)
def tabs_and_lines_unescaped(n):
    """A script that knew no JSON wrote line ends into the strings as they are."""
    return json.dumps(n).replace("\\n", "\n")


@fault(ALL)
def a_number_of_five_thousand_digits(n):
    return json.dumps(n).replace('"execution_count": null', '"execution_count": 1' + "0" * 5000)


@fault(ALL)
def infinity_runs(n):
    return json.dumps(n).replace('"execution_count": null', '"execution_count": Infinity')


@fault(ALL)
def the_format_is_text(n):
    """A tool that was written in a hurry, or an assistant that wrote the JSON by itself."""
    n["nbformat"], n["nbformat_minor"] = "4", "5"


@fault(ALL)
def no_format(n):
    del n["nbformat"], n["nbformat_minor"]


@fault(ALL)
def the_format_has_a_point(n):
    """A program without integers has written it."""
    n["nbformat"], n["nbformat_minor"] = 4.0, 5.0


@fault(ALL)
def format_3_with_a_key_too_many(n):
    return as_format_3(n, prompt_number="In [3]", id="a")


@fault(ALL)
def format_3_with_an_output_of_another_shape(n):
    return as_format_3(n, outputs=[{"output_type": "stream"}])


@fault(ALL)
def worksheets_in_format_4(n):
    """Somebody has written 4 where 3 stood, or a program that knew both."""
    return json.dumps({"nbformat": 4, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": n["cells"]}]})


@fault(ALL)
def the_format_is_4_5(n):
    n["nbformat"] = 4.5
    del n["nbformat_minor"]


@fault(ALL)
def times_of_cells_are_null(n):
    """What JupyterLab notes of each run, emptied by a tool that cleans."""
    for cell in n["cells"]:
        cell["metadata"]["execution"] = {"iopub.status.busy": None, "shell.execute_reply": None}


@fault(ALL)
def tags_of_tags(n):
    for cell in n["cells"]:
        cell["metadata"]["tags"] = [["a", None]]


@fault(ALL)
def metadata_nested_deeply(n):
    n["metadata"]["history"] = nested(300)


@fault(ALL)
def an_output_nested_deeply(n):
    """A tree, displayed as JSON."""
    data = {"application/json": nested(300), "text/plain": "a tree"}
    cell_of(n, "f")["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]


@fault(ALL)
def a_null_among_the_cells(n):
    n["cells"].insert(2, None)


@fault(ALL)
def a_cell_is_text(n):
    n["cells"].append("And that was it!")


@fault(ALL)
def a_cell_without_a_type(n):
    del cell_of(n, "f")["cell_type"]


@fault(ALL)
def types_in_capitals_and_no_names(n):
    """As an assistant writes them that has seen no other notebook."""
    nameless(n)
    for cell in n["cells"]:
        cell["cell_type"] = "Code"


@fault(ALL)
def attachments_are_null(n):
    n["cells"].insert(1, {"cell_type": "markdown", "source": "a note", "metadata": {}, "attachments": None})


@fault(ALL)
def attachments_of_another_shape(n):
    n["cells"].insert(1, {"cell_type": "markdown", "source": "a", "metadata": {}, "attachments": {"a.png": "iVBORw"}})


@fault(ALL)
def lines_without_ends(n):
    """The source is a list of lines, and none of them ends in a line end: assistants and scripts do that."""
    cell_of(n, "g")["source"] = "def g(x):\n    square = x * x\n    return square * x"
    for cell in n["cells"]:
        cell["source"] = cell["source"].split("\n")


@fault(ALL)
def answered_in_the_check(n):
    """The stub stays, and the answer was typed above the first line of the check's cell, which somebody unlocked."""
    cell_of(n, "f")["source"] = "def f(x):\n    pass"
    cell_of(n, "f-check")["source"] = ANSWERS["f"] + "\n\n" + cell_of(n, "f-check")["source"]


@fault(ALL)
def merged_with_the_check_above(n):
    """The merged cell has the name of the upper one, the check of f."""
    cell_of(n, "f-check")["source"] += "\n\n" + ANSWERS["g"]
    n["cells"].remove(cell_of(n, "g"))


@fault(ALL)
def everything_merged(n):
    n["cells"][0]["source"] = "\n\n".join(cell["source"] for cell in n["cells"])
    del n["cells"][1:]


@fault(ALL)
def merged_with_the_check_below(n):
    cell_of(n, "f")["source"] += "\n\n" + cell_of(n, "f-check")["source"]
    n["cells"].remove(cell_of(n, "f-check"))


@fault(ONLY_G)
def merged_with_a_check_and_the_answer_below(n):
    """The upper answer is wrong, and so nothing below its check would run."""
    wrong = ANSWERS["f"].replace("x * x", "x")
    cell_of(n, "f")["source"] = "\n\n".join([wrong, cell_of(n, "f-check")["source"], ANSWERS["g"]])
    n["cells"] = [cell for cell in n["cells"] if cell["id"] not in ("f-check", "g")]


@fault(ALL)
def an_answer_and_its_helpers_below_its_check(n):
    _stub_again(n, "f")
    cell_of(n, "f")["source"] = "# see the end\n" + cell_of(n, "f")["source"]
    parts = ["import functools", "def square(x):\n    return x * x", "def f(x):\n    return square(x)"]
    n["cells"] += map(code, [*parts, "f = functools.lru_cache(f)\nprint(f(3))"])


@fault(ALL)
def an_experiment_below_its_check_and_no_names(n):
    nameless(n)
    n["cells"].insert(3, code("def f(x):\n    return x * x * 1.01"))


@fault(ALL)
def a_deleted_stub_is_answered_at_the_end(n):
    n["cells"].append(_stub_again(n, "g"))
    n["cells"].remove(cell_of(n, "g"))


@fault(ALL)
def a_locked_cell_is_copied_and_rewritten(n):
    n["cells"].insert(1, {**n["cells"][0], "id": "copy", "source": "def square(x):\n    return x * x"})
    cell_of(n, "f")["source"] = "def f(x):\n    return square(x)"


@fault(ALL)
def answered_in_the_middle_of_the_check(n):
    _stub_again(n, "g")
    first, *rest = cell_of(n, "g-check")["source"].split("\n")
    cell_of(n, "g-check")["source"] = "\n".join([first, ANSWERS["g"], *rest])


@fault(NOTHING)
def the_notebook_of_another_unit(n):
    for cell in n["cells"]:
        cell["id"] = cell["metadata"]["nbgrader"]["grade_id"] = "other-" + cell["id"]
        cell["source"] = re.sub(r"\b[fg]\b", "roots", cell["source"]).replace("check(", "check_equal(")


class Class:
    """The class after it was graded."""

    def __init__(self, root, judged):
        self.root = root
        make_course(root, judged=judged)
        for student, (_, spoil) in FAULTS.items():
            notebook = honest()
            text = spoil(notebook)
            text = json.dumps(notebook) if text is None else text
            self.submit(student, text if isinstance(text, bytes) else text.encode())
        for student, (_, spoil) in FOLDERS.items():
            spoil(honest(), self.folder(student))
        for student in STUDENTS:
            self.submit(student, json.dumps(honest()).encode())
        self.strangers = strangers(self)
        self.printed = self.run("autograde", UNIT, f"--RunNotebook.box={not why_not()}")
        self.pages = self.run("generate_feedback", UNIT)
        with Gradebook(f"sqlite:///{root}/gradebook.db") as gradebook:
            self.points = {s.student.id: s.score for s in gradebook.assignment_submissions(UNIT)}

    def folder(self, student):
        folder = self.root / "submitted" / student / UNIT
        folder.mkdir(parents=True)
        return folder

    def submit(self, student, content):
        (self.folder(student) / f"{NAME}.ipynb").write_bytes(content)

    def run(self, *arguments):
        environment = {"HOME": "/nonexistent", "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"}
        command = [sys.executable, "-m", "nbgrader", *arguments]
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, errors="replace", timeout=900
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    """As the course grades here: in the judge, or observed where there can be no box."""
    return Class(tmp_path_factory.mktemp("faults"), judged=not why_not())


EVERYBODY = {name: points for name, (points, _) in (FAULTS | FOLDERS).items()} | dict.fromkeys(STUDENTS, ALL)


@pytest.mark.parametrize("student", EVERYBODY)
def test_the_points_that_are_left(classroom, student):
    assert classroom.points.get(student) == EVERYBODY[student], lines_on(classroom, student)


@pytest.mark.parametrize("student", EVERYBODY)
def test_there_is_a_page_and_nothing_beside_it(classroom, student):
    page = classroom.root / "feedback" / student / UNIT / f"{NAME}.html"
    text = re.sub(r"<[^>]*>", "", page.read_text())
    assert f"(Score: {EVERYBODY[student]} / {ALL})" in text
    assert str(classroom.root) not in text
    assert [path.name for path in page.parent.iterdir()] == [page.name]


def test_the_class_goes_on(classroom):
    assert len(FAULTS) >= 50
    assert "Traceback" not in classroom.printed + classroom.pages


def test_who_is_no_student_has_no_grade_and_a_line(classroom):
    assert classroom.points.keys() == EVERYBODY.keys()
    said = [line for line in classroom.printed.splitlines() if line.endswith("It has no grade.")]
    assert len(said) == classroom.strangers == len({line.split(": ")[1] for line in said}) + 1, said


def test_what_no_cell_can_need_is_not_copied(classroom):
    graded = classroom.root / "autograded"
    for student in ("an_environment_beside", "a_sparse_file_beside", "a_repository_beside"):
        assert [path.name for path in (graded / student / UNIT).iterdir()] == [f"{NAME}.ipynb"]
    assert (graded / "a_saved_page_beside" / UNIT / f"{NAME}_files" / "style.css").exists()
    assert "a_sparse_file_beside/00_powers: 1 of 1 files beside the notebook left out" in classroom.printed


@pytest.mark.parametrize("student", ["an_answer_is_lost", "the_notebook_of_another_unit"])
def test_a_page_says_what_was_not_as_released(classroom, student):
    page = classroom.root / "feedback" / student / UNIT / f"{NAME}.html"
    assert "Not as released:" in page.read_text()


def test_a_page_says_what_was_handed_in_where_no_notebook_was(classroom):
    page = classroom.root / "feedback" / "an_archive_of_another_kind" / UNIT / f"{NAME}.html"
    assert f"What was handed in: '{NAME}.rar'." in page.read_text()


def lines_on(classroom, student):
    said = [line for line in classroom.printed.splitlines() if f"/{student}/" in line or f" {student} " in line]
    graded = Path(classroom.root, "autograded", student, UNIT, f"{NAME}.ipynb")
    errors = []
    if graded.exists():
        cells = read_notebook(graded).cells
        errors = [(c.id, o.ename, o.evalue) for c in cells for o in c.get("outputs", []) if o.output_type == "error"]
    return "\n".join([*said, *map(str, errors)])
