"""Answers that stand elsewhere than in their cells: what a student wrote in another cell, and left a stub as it was.

A fair reader looks for it, function by function. One whose body is still the released one, in whatever form, is not
written: it gets what the student defines under its name, and what that needs and stands only further down. All of it is
copied, in the student's order; the cells themselves stay where they are.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator
from functools import cached_property

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from .guard.course import assigned, imports
from .python_text import PythonText, read_now
from .released_cells import is_graded, is_to_fill_in, name_of, nbgrader_metadata

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_Stub = dict[str, str]  # of a function or a class: what is still to be written of it, by the names of its methods


def is_stub(cell: NotebookNode) -> bool:
    """Whether a released cell holds a function, or a class, of which something is to be written."""
    return is_to_fill_in(cell) and bool(_stubs_in(cell))


def is_begun(text: str, released: NotebookNode) -> bool:
    """Whether a text holds more of an answer than its released cell: a stub in another form does not."""
    stub = _stubs_in(released)
    if not stub:
        return text.strip() not in ("", released.source.strip())
    place = _Place(0, new_code_cell(text), stub)
    return bool(text.strip()) and not all(map(place.lacks, stub))


def fill_in(cells: list[NotebookNode], release: NotebookNode) -> list[str]:
    """Fill in what was not written in the answers' cells, and was elsewhere.

    Arguments:
      cells: the cells of a submission, in line with the release: as they are going to be run.

    Returns:
      the names of the cells that are filled in now.
    """
    stubs = {str(name_of(cell)): _stubs_in(cell) for cell in release.cells if is_stub(cell)}
    forms = {name: stub for of_cell in stubs.values() for name, stub in of_cell.items()}
    places = [_Place(i, cell, forms) for i, cell in enumerate(cells) if cell.cell_type == "code"]
    answers = [place for place in places if name_of(place.cell) in stubs]
    if not any(place.lacks(name) for place in answers for name in stubs[str(name_of(place.cell))]):
        return []
    texts = {original.source.strip() for original in release.cells}
    own = [p for p in places if not nbgrader_metadata(p.cell) and p.cell.source.strip() not in texts]
    filled = []
    for place in answers:
        answer = _Answer(place, stubs[str(name_of(place.cell))], places, own, [p for p in answers if p is not place])
        if answer.homes:
            filled.append((place, answer.text()))
            place.bound |= {name for home in answer.chosen for name in home.bound}
    for place, text in filled:
        place.cell.source = text
    return [str(name_of(place.cell)) for place, _ in filled]


class _Place:
    """A code cell, and where it stands."""

    def __init__(self, index: int, cell: NotebookNode, stubs: dict[str, _Stub]):
        self.index, self.cell, self.stubs = index, cell, stubs

    @cached_property
    def _read(self) -> PythonText | None:
        return PythonText.of(self.cell.source)

    @cached_property
    def python(self) -> PythonText:
        """Its text; an empty one if it is no Python."""
        return self._read or PythonText("", ast.Module(body=[], type_ignores=[]))

    @cached_property
    def bound(self) -> set[str]:
        """The names to which something is given here, stubs among them."""
        return set(self.python.bound)

    @cached_property
    def _statements(self) -> list[tuple[set[str], set[str], set[str]]]:
        """Of each: the names that it defines, all that it binds, and those that it reads when it is carried out."""
        body = self.python.tree.body
        alone = [PythonText("", ast.Module(body=[node], type_ignores=[])) for node in body]
        return [(set(self._given([node])), one.bound, read_now(node)) for node, one in zip(body, alone, strict=True)]

    def _given(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        """The names that these statements define. A stub is no definition, and neither is what only has its name.

        That is a number, and the result of a call of the function itself.
        """
        for node in nodes:
            if isinstance(node, _FUNCTIONS | ast.ClassDef):
                yield from [] if self.is_stub(node) else [node.name]
            elif isinstance(node, ast.Import | ast.ImportFrom):
                yield from (name for name, _ in imports([node]))
            elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                for target, value in assigned(node):
                    tried = _called_in(value) & read_now(node)  # a `lambda` may call itself
                    tried |= self.stubs.keys() if isinstance(value, ast.Constant) else set()
                    named = (part for part in ast.walk(target) if isinstance(part, ast.Name))
                    yield from (n.id for n in named if isinstance(n.ctx, ast.Store) and n.id not in tried)
                yield from self._given(ast.iter_child_nodes(node))

    def is_stub(self, node: ast.AST) -> bool:
        """Whether a definition is one of the released ones, and nothing of it was written."""
        stub = self.stubs.get(getattr(node, "name", ""), {})
        return bool(stub) and stub.items() <= _to_write(node).items()

    def is_trial(self, node: ast.stmt) -> bool:
        """Whether a statement calls a function that was to be written, and does nothing with the result but show it."""
        return isinstance(node, ast.Expr | ast.Assert) and not self.stubs.keys().isdisjoint(_called_in(node))

    def defines(self, name: str) -> bool:
        """Whether a name is defined here, or what it stood for is changed."""
        return any(name in given for given, _, _ in self._statements)

    def defines_anew(self, name: str) -> bool:
        """Whether a name is defined here without the help of what it stood for before."""
        inside = False
        for given, names, read in self._statements:
            if name in read and not inside:
                return False
            if name in given - read:
                return True
            inside = inside or name in names
        return False

    def lacks(self, name: str) -> bool:
        """Whether a function of this answer is not written: its stub is as it was, or gone, and nothing instead."""
        is_gone = self._read is not None and name not in self.python.bound
        return not self.defines_anew(name) and (self.has_stub(name) or is_gone)

    def has_stub(self, name: str) -> bool:
        """Whether the stub of a function is here, as it was released."""
        return any(self.is_stub(node) and getattr(node, "name", "") == name for node in self.python.tree.body)


class _Answer:
    """What was not written in the cell of an answer: where each function is defined, and what goes into the cell.

    Arguments:
      stub: what is to be written in this cell.
      places, own, others: all code cells; the student's own; those of the other answers.

    `homes` has the cells that define a function, by its name, and `chosen` all that are copied.
    """

    def __init__(
        self, place: _Place, stub: dict[str, _Stub], places: list[_Place], own: list[_Place], others: list[_Place]
    ):
        self.place = place
        self.above = {name for p in places if p.index < place.index for name in p.bound}
        below = (p.index for p in places if p.index > place.index and is_graded(p.cell))
        check = next(below, places[-1].index + 1)
        between = [p for p in own + others if place.index < p.index < check]
        lacking = [name for name in stub if place.lacks(name)]
        self.written = stub.keys() - lacking
        runs = [name for name in lacking if any(p.defines_anew(name) for p in between)]  # where it is
        runs += [name for name in lacking if name in self.above and not place.has_stub(name)]
        mine, all_of_them = ([p for p in some if p not in between] for some in (own, own + others))
        homes = {
            name: _definition(name, mine) or _definition(name, all_of_them) for name in lacking if name not in runs
        }
        self.homes = {name: home for name, home in homes.items() if home}
        self.chosen = self._with_what_they_need([p for home in self.homes.values() for p in home], own, others)

    def _with_what_they_need(self, chosen: list[_Place], own: list[_Place], others: list[_Place]) -> list[_Place]:
        ahead, chosen = chosen, []
        have = self.above | self.place.bound | set(dir(builtins))
        while ahead:
            place = ahead.pop()
            if place in chosen:
                continue
            chosen.append(place)
            have |= place.bound
            for name in sorted(place.python.asked_for - have):
                for some in (own, own + others):
                    before = [p for p in some if p.index <= place.index]  # as it was when this was written
                    if found := _definition(name, before) or _definition(name, some):
                        ahead += found
                        break
        return sorted(chosen, key=lambda place: place.index)

    def text(self) -> str:
        """The cell's text: what was copied from above, what was written in it, what was copied from below."""
        copies = [(p.index < self.place.index, self._copy(p)) for p in self.chosen]
        above, below = ([text for is_above, text in copies if is_above is wanted] for wanted in (True, False))
        return "\n\n\n".join(text for text in [*above, self._rest(), *below] if text.strip())

    def _copy(self, place: _Place) -> str:
        """Another cell's text, without stubs, without what is written in this answer's own cell, and without trials.

        These may fail, and what stands below them would be lost; they are run where they stand.
        """
        out = [node for node in place.python.tree.body if place.is_stub(node) or place.is_trial(node)]
        definitions = [n for n in place.python.tree.body if isinstance(n, _FUNCTIONS | ast.ClassDef)]
        return place.python.without(out + [node for node in definitions if node.name in self.written])

    def _rest(self) -> str:
        """What stays of the cell's own text: without the stubs that would overwrite what was copied from above.

        The others stay with the rest, if there is one: a decorator in it may read them.
        """
        stubs = {node: getattr(node, "name", "") for node in self.place.python.tree.body if self.place.is_stub(node)}
        raised = list(filter(_is_not_implemented, self.place.python.tree.body))
        out = [node for node, name in stubs.items() if name in self.homes] + raised
        if any(node not in out and not _says_nothing(node) for node in self.place.python.tree.body):
            above = {name for name, home in self.homes.items() if home[0].index < self.place.index}
            out = [node for node, name in stubs.items() if name in above] + raised
        return self.place.python.without(out)


def _definition(name: str, places: list[_Place]) -> list[_Place]:
    """The last of these cells that defines a name anew, and those after it that change what it stands for."""
    homes = [place for place in sorted(places, key=lambda place: place.index) if place.defines(name)]
    anew = [i for i, place in enumerate(homes) if place.defines_anew(name)]
    return homes[anew[-1] :] if anew else []


def _stubs_in(cell: NotebookNode) -> dict[str, _Stub]:
    """The functions and classes of a released cell of which something is to be written."""
    text = PythonText.of(cell.source)
    found = {getattr(node, "name", ""): _to_write(node) for node in (text.tree.body if text else ())}
    return {name: stub for name, stub in found.items() if stub}


def _to_write(node: ast.AST) -> _Stub:
    """What is to be written of a definition, by the names of its methods: a body that raises NotImplementedError.

    A docstring, comments, the error's text and what does nothing make no difference.
    """
    functions = {n.name: n for n in node.body if isinstance(n, _FUNCTIONS)} if isinstance(node, ast.ClassDef) else {}
    if isinstance(node, _FUNCTIONS):
        functions = {"": node}
    return {
        name: "\n".join("" if _is_not_implemented(s) else ast.unparse(s) for s in function.body if not _says_nothing(s))
        for name, function in functions.items()
        if any(map(_is_not_implemented, function.body))
    }


def _is_not_implemented(node: ast.AST) -> bool:
    """Whether a statement raises NotImplementedError."""
    error = (
        node.exc.func if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) else getattr(node, "exc", None)
    )
    return isinstance(error, ast.Name) and error.id == "NotImplementedError"


def _says_nothing(node: ast.AST) -> bool:
    """Whether a statement is a docstring, `...` or `pass`."""
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _called_in(node: ast.AST) -> set[str]:
    """The names that are called in a statement or an expression."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}
