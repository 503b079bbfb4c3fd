"""Reading a notebook, bringing it back in line with the release, reading off its points."""

import gzip
import io
import json
import random
import zipfile

import nbformat
import pytest
from conftest import graded, locked, solution
from nbformat.v4 import new_output

from autograder.doors.graded_notebook import (
    Score,
    UnreadableNotebook,
    demote_copies,
    failure_text,
    nbgrader_metadata,
    parse_notebook,
    read_notebook,
    restore,
    score,
)
from autograder.doors.guard.cells import Guard, course_in
from autograder.doors.unpacked import MOST, CannotBeUnpacked, unpacked


def ids(notebook):
    return [nbgrader_metadata(cell).get("grade_id") for cell in notebook.cells]


def copy(node):
    return nbformat.from_dict(json.loads(json.dumps(node)))


def zipped(files, method=zipfile.ZIP_DEFLATED):
    """The bytes of an archive of files: name -> content."""
    with io.BytesIO() as stream:
        with zipfile.ZipFile(stream, "w", method) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such notebook."),
        (b"{not json", "this is no notebook, because it is no JSON (line 1: "),
        (b"", "this is no notebook, because it is no JSON (line 1: Expecting value). The file is empty."),
        (b"<!DOCTYPE html>", "this is no notebook, because it is no JSON (line 1: Expecting value). It is a web page"),
        (
            b'{"cells": [\n<<<<<<< HEAD\n',
            "this is no notebook, because it is no JSON (line 2: Expecting value). "
            "Git has left the marks of a conflict in it, the first in line 2.",
        ),
        (b"\xff\xfe\x00", "this file cannot be read as text; is it a notebook?"),
        (b"\xff{", "this file cannot be read as text; is it a notebook?"),
        (b"\x1f\x8b\x08 and no more", "this is a compressed file that cannot be unpacked ("),
        (b"PK\x03\x04 and no more", "this is a compressed file that cannot be unpacked ("),
        (zipped({"notes.txt": b""}), "this is an archive with no notebooks in it: unpack it."),
        (zipped({"a.ipynb": b"", "b.ipynb": b""}), "this is an archive with 2 notebooks in it: unpack it."),
        (zipped({"a.ipynb": b""}, zipfile.ZIP_LZMA), "this is an archive of an unusual kind: unpack it."),
        (zipped({"a.ipynb": bytes(MOST + 1)}), "this is a compressed file of more than 100 MB."),
        (gzip.compress(bytes(MOST + 1)), "this is a compressed file of more than 100 MB."),
        (b"[" * 200_000, "this is no notebook: its JSON is nested too deeply."),
        (b'{"cells": 3}', "this is JSON, but no notebook (it has no cells)."),
        (b'{"worksheets": 3}', "this is JSON, but no notebook (it has no cells)."),
        (b"[1, 2]", "this is JSON, but no notebook (it has no cells)."),
        (
            b'{"cells": [], "nbformat": 9}',
            "this is JSON, but no notebook that can be read (its format is 9, not 4).",
        ),
    ],
    ids=lambda value: value if type(value) is str else "a file",  # an archive holds the time at which it was made
)
def test_unreadable_files_get_one_line(tmp_path, content, message):
    path = tmp_path / "the_cache.ipynb"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableNotebook) as error:
        read_notebook(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_reads_a_notebook_in_every_encoding_of_unicode(tmp_path, make_notebook, encoding):
    path = tmp_path / "a.ipynb"
    path.write_text(nbformat.writes(make_notebook("x = 'é'")), encoding=encoding)
    assert read_notebook(path).cells[0].source == "x = 'é'"


@pytest.mark.parametrize(
    "packed", [gzip.compress(b"{}" * 99), zipped({"a/a.ipynb": b"{}" * 99, "b.txt": b"b"})], ids=["gzip", "zip"]
)
def test_a_damaged_archive_is_told_of_in_one_line(packed):
    rng = random.Random(0)
    for _ in range(2000):
        damaged = bytearray(packed[: rng.randrange(4, len(packed) + 1)])
        for _ in range(rng.randrange(4)):
            damaged[rng.randrange(4, len(damaged)) if len(damaged) > 4 else 3] = rng.choice([0, 1, 127, 255])
        try:
            unpacked(bytes(damaged))
        except CannotBeUnpacked as error:
            assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        lambda data: zipped({"a.ipynb": data}),
        lambda data: zipped({"mine/05/A.IPYNB": data, "__MACOSX/mine/05/._a.ipynb": b"", "notes.txt": b"none"}),
        lambda data: zipped({"a.ipynb": data, ".ipynb_checkpoints/a-checkpoint.ipynb": b""}),
    ],
)
def test_a_compressed_notebook_is_unpacked(tmp_path, make_notebook, pack):
    path = tmp_path / "a.ipynb"
    path.write_bytes(pack(nbformat.writes(make_notebook("x = 'é'")).encode()))
    assert read_notebook(path).cells[0].source == "x = 'é'"


@pytest.mark.parametrize(
    "untidy",
    [
        lambda content: content.update(nbformat_minor=4),
        lambda content: [cell.pop("id") for cell in content["cells"]],
        lambda content: [cell.update(id="same") for cell in content["cells"]],
        lambda content: [cell.update(id="no id") for cell in content["cells"]],
        lambda content: [cell.update(id=identity) for cell, identity in zip(content["cells"], [7, None], strict=True)],
        lambda content: content.update(comment="of some program"),
        lambda content: content.pop("metadata"),
        lambda content: content["metadata"].update(kernelspec=None),
        lambda content: content["cells"][0].update(comment="of some program", attachments={}),
        lambda content: content["cells"][0].pop("metadata"),
        lambda content: content["cells"][0].update(metadata=None),
        lambda content: content["cells"][0]["metadata"].update(tags=None, collapsed=3, jupyter="x"),
        lambda content: content["cells"][0].pop("outputs"),
        lambda content: content["cells"][0].pop("execution_count"),
        lambda content: content["cells"][0].update(execution_count=10**4000),
        lambda content: content["cells"][0].update(cell_type="Code"),
        lambda content: content["cells"][0].pop("cell_type"),
        lambda content: content["cells"].insert(1, None),
        lambda content: content.update(nbformat="4"),
        lambda content: content.update(nbformat=4.0),
        lambda content: content.pop("nbformat"),
        lambda content: content.update(worksheets=[{"cells": content.pop("cells")}]),
        lambda content: content["cells"][0]["metadata"].update(execution={"iopub.status.busy": None}),
    ],
)
def test_what_other_programs_leave_in_a_notebook_is_forgiven(tmp_path, make_notebook, untidy, recwarn):
    path = tmp_path / "a.ipynb"
    content = json.loads(nbformat.writes(make_notebook("x = 1", "y = 2")))
    untidy(content)
    path.write_text(json.dumps(content))
    notebook = read_notebook(path)
    nbformat.validate(notebook)
    assert notebook.nbformat_minor == 5
    assert [cell.source for cell in notebook.cells] == ["x = 1", "y = 2"]
    assert len({cell.id for cell in notebook.cells}) == 2
    assert not recwarn.list


@pytest.mark.parametrize(
    ("lines", "source"),
    [
        (["x = 1\n", "y = 2"], "x = 1\ny = 2"),
        (["x = 1", "", "y = 2"], "x = 1\n\ny = 2"),  # a program that knew lines, and not that each has its end
        (["x = 1", None, "y = 2"], "x = 1\ny = 2"),
        (["x = 1\r\n", "y = 2"], "x = 1\ny = 2"),
        (
            "x = 1\r\r\ny = 2",
            "x = 1\ny = 2",
        ),  # read once more, it is the same
        (["x = '\u2028", "'"], "x = '\u2028'"),  # nbformat parts a text there as well
        ("x = '\ud800'", "x = '\ufffd'"),
    ],
)
def test_the_text_of_a_cell_is_put_together(lines, source):
    cell = {"cell_type": "code", "source": lines, "metadata": {}}
    data = json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}).encode()
    assert parse_notebook(data, "a.ipynb").cells[0].source == source


def test_the_names_of_cells_outlast_what_is_broken_beside_them(make_notebook):
    content = json.loads(nbformat.writes(make_notebook(("x = 1", graded("a", 2)))))
    content["cells"][0] |= {"outputs": [{"output_type": "stream"}], "attachments": 3}
    content["cells"][0]["metadata"] |= {"tags": [["a", None]]}
    content["cells"][0]["metadata"]["nbgrader"]["comment"] = {"of": ["some", "program"]}
    cell = parse_notebook(json.dumps(content).encode(), "a.ipynb").cells[0]
    assert (cell.outputs, cell.metadata) == ([], {"nbgrader": graded("a", 2)})


@pytest.mark.parametrize("levels", [20, 40, 60, 150, 400])
def test_what_is_nested_deeply_is_left_out_before_it_stops_anything(make_notebook, levels):
    content = json.loads(nbformat.writes(make_notebook("x = 1")))
    value = []
    for _ in range(levels):
        value = [value]
    content["metadata"]["deep"] = value
    notebook = parse_notebook(json.dumps(content).encode(), "a.ipynb")
    assert ("deep" in notebook.metadata) == (levels < 50)
    assert notebook.cells[0].source == "x = 1"


@pytest.mark.parametrize(
    ("encoding", "note"), [("cp1252", "für später – fertig"), ("utf-8", "größer als 幂"), ("utf-8", "plain")]
)
def test_a_damaged_byte_costs_one_letter(make_notebook, encoding, note):
    content = json.loads(nbformat.writes(make_notebook(f"x = 1  # {note} @@")))
    data = json.dumps(content, ensure_ascii=False).encode(encoding).replace(b"@@", b"\xff")
    source = parse_notebook(data, "a.ipynb").cells[0].source
    assert source.startswith(f"x = 1  # {note} ") and len(source) == len(f"x = 1  # {note} @")


def test_an_older_format_is_upgraded(tmp_path):
    cell = {"cell_type": "code", "input": "x = 1", "language": "python", "outputs": [], "metadata": {}}
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [cell]}]}))
    assert read_notebook(path).cells[0].source == "x = 1"


@pytest.mark.parametrize("entry", [None, "graded", 3, [], {"grade_id": ["f"]}])
def test_a_broken_nbgrader_entry_makes_an_ordinary_cell(make_notebook, entry):
    notebook = make_notebook("x = 1")
    notebook.cells[0].metadata["nbgrader"] = entry
    demote_copies(notebook)
    assert nbgrader_metadata(notebook.cells[0]) == {}


def test_the_last_copy_of_a_cell_counts(make_notebook):
    notebook = make_notebook(("first", solution("a")), ("plain", {}), ("second", solution("a")))
    notebook.cells[1].metadata["nbgrader"] = {}  # what nbgrader leaves, and then stumbles over
    demote_copies(notebook)
    assert ids(notebook) == [None, None, "a"]
    assert all("nbgrader" not in cell.metadata for cell in notebook.cells[:2])


def test_untouched_text_below_an_answer_does_not_take_its_place(make_notebook):
    release = make_notebook(("stub", solution("a")), ("check", graded("c", 1)))
    mine = make_notebook(
        *(("answer", solution("a")), ("check", graded("c", 1)), ("stub", solution("a")), ("check", graded("c", 1)))
    )
    restore(mine, release)
    assert [cell.source for cell in mine.cells] == ["answer", "check"]
    twice = make_notebook(("first", solution("a")), ("stub", solution("a")), ("second", solution("a")))
    restore(twice, make_notebook(("stub", solution("a"))))
    assert [(cell.source, name) for cell, name in zip(twice.cells, ids(twice), strict=True)] == [
        ("first", None),
        ("second", "a"),
    ]


def test_a_copy_below_the_check_takes_the_place_of_no_answer(make_notebook):
    release = make_notebook(("stub", solution("a")), ("check", graded("c", 1)))
    answer, check, old = ("answer", solution("a")), ("check", graded("c", 1)), ("old", solution("a"))
    mine = make_notebook(("older", solution("a")), answer, check, old)
    restore(mine, release)
    assert [(cell.source, name) for cell, name in zip(mine.cells, ids(mine), strict=True)] == [
        *(("older", None), ("answer", "a"), ("check", "c"), ("old", None))
    ]
    alone = make_notebook(("stub", solution("a")), check, old)
    restore(alone, release)
    assert [(cell.source, name) for cell, name in zip(alone.cells, ids(alone), strict=True) if name == "a"] == [
        ("old", "a")
    ]


STUB = "def f(x):\n    raise NotImplementedError"
WRITTEN = "def helper(): ...\n\ndef f(x):\n    return x"


@pytest.mark.parametrize("above", [True, False])
def test_what_is_written_in_another_cell_than_its_stub_is_the_answer(make_notebook, above):
    release = make_notebook((STUB, solution("f")), ("check(f)", graded("f-check", 1)))
    stub, own = [(STUB, solution("f")), ("check(f)", graded("f-check", 1))], ["def f(x): 1", WRITTEN, "def h(x): 2"]
    mine = make_notebook(*(own + stub if above else stub + own))
    assert restore(mine, release) == ["f (answered in another cell)"]
    assert [cell.source for cell, name in zip(mine.cells, ids(mine), strict=True) if name == "f"] == [WRITTEN]
    assert [cell.source for cell, name in zip(mine.cells, ids(mine), strict=True) if name is None] == own


@pytest.mark.parametrize("stub", [STUB, ""])
def test_what_is_written_in_the_cell_of_another_answer_is_the_answer(make_notebook, stub):
    """Of a stub that was left, or emptied; the other answer's cell is both answers."""
    both = WRITTEN + "\n\ndef g(x):\n    return f(x)"
    cells = [(STUB, solution("f")), ("check(f)", graded("f-check", 1)), (STUB.replace("f(", "g("), solution("g"))]
    mine = make_notebook((stub, solution("f")), cells[1], (both, solution("g")))
    assert restore(mine, make_notebook(*cells)) == ["f (answered in another cell)"]
    assert [cell.source for cell in mine.cells] == [both, "check(f)", both]


def test_each_function_of_a_stub_is_looked_for(make_notebook):
    """In cells of one's own, or an other answer's; a stub that was pasted below is none."""
    stub = STUB + "\n\n\ndef h(x):\n    raise NotImplementedError"
    cells = [(stub, solution("f")), ("check(f)", graded("f-check", 1))]
    release = make_notebook(*cells)
    one, other = "def f(x):\n    return 1", "def h(x):\n    return 2"
    mine = make_notebook(one, "def f(x): ...", *cells, other, stub, one)
    assert restore(mine, release) == ["f (answered in another cell)"]
    answer = next(cell.source for cell, name in zip(mine.cells, ids(mine), strict=True) if name == "f")
    assert answer == f"{other}\n\n\n{one}"


def test_imports_that_were_added_to_a_locked_cell_are_a_cell_of_their_own(make_notebook):
    setup = "import jax\n\nSIZE = 3\nfrom math import pi"
    release = make_notebook((setup, locked("setup")), (STUB, solution("f")), ("check(f)", graded("f-check", 1)))
    sorted_by_a_tool = "import functools\nimport jax\nfrom math import ceil, pi\n\nSIZE = 3\neval('evil')"
    mine = make_notebook((sorted_by_a_tool, locked("setup")), (WRITTEN, solution("f")), *release_checks(release))
    assert restore(mine, release) == ["setup (edited)"]
    sources = ["import functools\nfrom math import ceil, pi", setup, "eval('evil')", WRITTEN]
    assert [cell.source for cell in mine.cells[:4]] == sources
    assert not mine.cells[0].metadata and not mine.cells[2].metadata, "they are the student's: unlocked and ungraded"
    said = Guard(mine, course_in(mine, release)).judged(mine.cells[2])
    assert said.name == "NotAllowed" and "eval" in said.why
    broken = make_notebook(("import functools\nSIZE =", locked("setup")), *release_checks(release))
    restore(broken, release)
    assert broken.cells[0].source == setup


def release_checks(release):
    return [("import os\ncheck(f)", cell.metadata.nbgrader) for cell in release.cells if "check" in cell.source]


@pytest.mark.parametrize("stub", ["def f(x):\n    return 3", STUB + "  # mine"])
def test_a_cell_that_is_written_or_works_as_it_is_is_not_replaced(make_notebook, stub):
    """A comment is no answer."""
    released = stub.removesuffix("  # mine")
    release = make_notebook((released, solution("f")), ("check(f)", graded("f-check", 1)))
    mine = make_notebook(WRITTEN, (stub, solution("f")), ("check(f)", graded("f-check", 1)))
    is_one = stub == released
    assert restore(mine, release) == ([] if is_one else ["f (answered in another cell)"])
    assert [cell.source for cell in mine.cells] == [WRITTEN, stub if is_one else WRITTEN, "check(f)"]


def test_the_notebook_of_another_unit_is_named(make_notebook):
    release = make_notebook((STUB, solution("f")), ("check(f)", graded("f-check", 1)))
    release.cells.insert(0, make_notebook(("import jax", locked("setup"))).cells[0])
    other = make_notebook(("1", locked("setup")), ("def g(): ...", solution("g")), ("check(g)", graded("g-check", 1)))
    for cell in other.cells:
        cell.id = f"other-{cell.id}"
    assert "all of it: it is the notebook of another unit" in restore(other, release)


class TestRestore:
    @pytest.fixture
    def release(self, make_notebook):
        return make_notebook(
            ("import jax", locked("setup")),
            ("def f(): ...", solution("f")),
            ("check(f)", graded("f-check", 3)),
            ("check(f, hard=True)", graded("f-hard", 2)),
        )

    @pytest.fixture
    def answered(self, release):
        """The release with the answer filled in, as an honest student's notebook."""
        notebook = copy(release)
        notebook.cells[1].source = "def f(): return 1"
        return notebook

    def test_an_untouched_notebook_stays_as_it_is(self, release):
        notebook = copy(release)
        assert restore(notebook, release) == []
        assert notebook == release

    def test_locked_cells_get_their_source_and_points_back_and_answers_stay(self, release, make_notebook):
        notebook = make_notebook(
            ("import os", locked("setup")),
            ("def f(): return 1", solution("f")),
            ("pass", graded("f-check", 100)),
            ("check(f, hard=True)", graded("f-hard", 3)),
        )
        changes = restore(notebook, release)
        assert [cell.source for cell in notebook.cells] == [
            "import jax",
            "def f(): return 1",
            "check(f)",
            "check(f, hard=True)",
        ]
        assert [cell.metadata.nbgrader.get("points") for cell in notebook.cells] == [None, None, 3, 2]
        assert changes == ["setup (edited)", "f-check (edited)", "f-hard (points)"]

    def test_deleted_locked_cells_come_back_in_their_place(self, release, make_notebook):
        notebook = make_notebook("notes = 1", ("def f(): return 1", solution("f")), "more = 2")
        changes = restore(notebook, release)
        assert ids(notebook) == ["setup", None, "f", "f-check", "f-hard", None]
        assert changes == ["setup (deleted)", "f-check (deleted)", "f-hard (deleted)"]

    def test_an_empty_notebook_gets_every_locked_cell(self, release, make_notebook):
        notebook = make_notebook()
        restore(notebook, release)
        assert ids(notebook) == ["setup", "f-check", "f-hard"]

    @pytest.mark.parametrize(
        ("text", "sources"),
        [
            ("import os\ncheck(f)", ["import os", "check(f)"]),
            ("check(f)\n\nprint(f)\n", ["check(f)", "print(f)"]),
            ('"""\ncheck(f)\n"""', ['"""', "check(f)", '"""']),
            ("check = print\ncheck(f)\ncheck(f)", ["check = print", "check(f)", "check(f)"]),
        ],
    )
    def test_what_is_added_to_a_locked_cell_becomes_a_cell_of_its_own(self, release, answered, text, sources):
        answered.cells[2].source = text
        assert restore(answered, release) == []
        assert [cell.source for cell in answered.cells[2:-1]] == sources
        kept = [cell for cell in answered.cells if nbgrader_metadata(cell)]
        assert [cell.metadata for cell in kept] == [cell.metadata for cell in release.cells]
        assert [cell.source for cell in kept[2:]] == ["check(f)", "check(f, hard=True)"]
        assert len({cell.id for cell in answered.cells}) == len(answered.cells)

    @pytest.mark.parametrize("text", ["if False:\n    check(f)", "# check(f)", "check(f) or 1", "x = 1"])
    def test_a_locked_cell_that_was_rewritten_is_put_back_and_its_text_is_lost(self, release, answered, text):
        expected = copy(answered)
        answered.cells[2].source = text
        assert restore(answered, release) == ["f-check (edited)"]
        assert answered == expected

    def test_cells_that_were_merged_are_apart_again(self, release, answered):
        expected = copy(answered)
        answered.cells[0].source = "\n\n".join(cell.source for cell in answered.cells)
        del answered.cells[1:]
        assert restore(answered, release) == []
        for cell in answered.cells + expected.cells:
            cell.id = "same"
        assert answered == expected

    def test_an_answer_whose_cell_is_gone_is_named(self, release, answered):
        del answered.cells[1]
        assert restore(answered, release) == ["f (deleted)"]
        assert ids(answered) == ["setup", "f-check", "f-hard"]

    def test_unknown_ids_go(self, release, make_notebook):
        notebook = make_notebook(("1000.0", graded("invented", 1000)))
        restore(notebook, release)
        assert "invented" not in ids(notebook)
        assert "1000.0" in [cell.source for cell in notebook.cells]

    @pytest.mark.parametrize("tag", ["skip-execution", "raises-exception", "remove_cell", "hide-input"])
    def test_no_tag_of_any_cell_stays(self, release, answered, tag):
        answered.cells.append(nbformat.v4.new_code_cell("mine = 1"))
        for cell in answered.cells:
            cell.metadata |= {"tags": [tag], "editable": True, "transient": {"remove_source": True}}
        changes = restore(answered, release)
        assert [dict(cell.metadata) for cell in answered.cells] == [*(dict(c.metadata) for c in release.cells), {}]
        assert bool(changes) == (tag == "skip-execution")

    @pytest.mark.parametrize("cell_type", ["markdown", "raw"])
    def test_a_released_cell_that_was_made_text_is_code_again(self, release, answered, cell_type):
        expected = copy(answered)
        for cell in answered.cells[1:3]:
            cell.cell_type = cell_type
            cell.attachments = {"a.png": {"image/png": "AAAA"}}
            del cell["outputs"], cell["execution_count"]
        assert restore(answered, release) == [f"f (made {cell_type})", f"f-check (made {cell_type})"]
        assert answered == expected
        nbformat.validate(answered)

    def test_the_notebooks_own_metadata_are_the_releases(self, release, answered):
        release.metadata = nbformat.from_dict({"kernelspec": {"name": "python3"}})
        answered.metadata = nbformat.from_dict({"kernelspec": {"name": "bash"}, "widgets": {}, "celltoolbar": "x"})
        assert restore(answered, release) == []
        assert answered.metadata == release.metadata

    def test_a_check_that_was_moved_goes_back_and_own_cells_stay_behind_their_neighbour(self, release, answered):
        setup, f, check, hard = answered.cells
        mine = [nbformat.v4.new_code_cell(f"mine = {i}") for i in range(4)]
        answered.cells = [mine[0], hard, mine[1], f, mine[2], setup, mine[3], check]
        assert restore(answered, release) == ["the order of the cells"]
        sources = [cell.source for cell in (mine[0], setup, mine[3], f, mine[2], check, hard, mine[1])]
        assert [cell.source for cell in answered.cells] == sources

    def test_prose_is_put_back_in_place_but_not_in_words(self, release):
        release.cells.insert(1, nbformat.v4.new_markdown_cell("## Task", id="task"))
        notebook = copy(release)
        notebook.cells[1].source = "## My task"
        notebook.cells[1].metadata["tags"] = ["skip-execution"]
        notebook.cells.append(notebook.cells.pop(1))
        assert restore(notebook, release) == []
        assert notebook.cells[1].source == "## My task" and notebook.cells[1].metadata == {}

    @pytest.fixture
    def named(self, release, answered):
        """The answered notebook; in it and in the release a graded cell's id is its name, as in the course."""
        for notebook in (release, answered):
            for cell in notebook.cells:
                cell.id = cell.metadata.nbgrader.grade_id
        return answered

    def test_a_notebook_without_metadata_is_known_by_its_ids(self, release, named):
        expected = copy(named)
        for cell in named.cells:
            cell.metadata = nbformat.from_dict({})
        assert restore(named, release) == []
        assert named == expected

    def test_a_notebook_without_metadata_and_ids_is_known_by_its_content(self, release, named):
        release.cells.insert(1, nbformat.v4.new_markdown_cell("## Task", id="task"))
        named.cells.insert(1, nbformat.v4.new_markdown_cell("## Task"))
        named.cells.insert(2, nbformat.v4.new_code_cell("def f(): return 0  # my first try"))
        named.cells.append(nbformat.v4.new_code_cell("mine = f()"))
        for number, cell in enumerate(named.cells):
            cell.metadata, cell.id = nbformat.from_dict({}), f"x{number}"
        assert restore(named, release) == []
        assert ids(named) == ["setup", None, None, "f", "f-check", "f-hard", None]
        assert [cell.source for cell in named.cells[2:4]] == ["def f(): return 0  # my first try", "def f(): return 1"]

    def test_an_own_cell_that_looks_like_an_answer_takes_no_place_that_is_filled(self, release, named):
        named.cells.append(nbformat.v4.new_code_cell("def f(): return 2"))
        assert restore(named, release) == []
        assert ids(named) == ["setup", "f", "f-check", "f-hard", None]
        assert named.cells[1].source == "def f(): return 1"

    def test_of_a_copied_cell_the_lower_counts_and_the_upper_gets_another_id(self, release, named):
        named.cells.insert(2, copy({**named.cells[1], "id": "pasted"}))
        named.cells[1].source = "first try"
        assert restore(named, release) == []
        assert [cell.source for cell in named.cells[1:3]] == ["first try", "def f(): return 1"]
        assert ids(named) == ["setup", None, "f", "f-check", "f-hard"]
        assert named.cells[2].id == "f"
        assert len({cell.id for cell in named.cells}) == 5


class TestScore:
    @pytest.fixture
    def cell(self, make_notebook):
        def make(*outputs):
            cell = make_notebook(("check()", graded("c", 4))).cells[0]
            cell.outputs = list(outputs)
            return cell

        return make

    def result(self, text):
        return new_output("execute_result", {"text/plain": text}, execution_count=1)

    def test_silence_is_full_marks(self, cell):
        assert score(cell()) == Score(4.0, 4.0, "")

    def test_a_float_is_partial_credit(self, cell):
        assert score(cell(self.result("1.5"))) == Score(1.5, 4.0, "1.5 of 4 points")

    def test_an_error_is_nothing(self, cell):
        error = new_output("error", ename="E", evalue="", traceback=["\x1b[31m----\x1b[0m", "E: broken"])
        assert score(cell(error)) == Score(0.0, 4.0, "E: broken")
        assert failure_text(cell(error)) == "E: broken"

    def test_standard_error_costs_nothing(self, cell):
        noise = new_output("stream", name="stderr", text="XLA: slow compile")
        assert score(cell(noise)) == Score(4.0, 4.0, "")

    def test_more_than_the_points_is_refused(self, cell):
        earned, possible, message = score(cell(self.result("5.0")))
        assert (earned, possible) == (0.0, 4.0)
        assert "greater than" in message
