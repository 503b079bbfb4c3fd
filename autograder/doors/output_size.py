"""How much of a submission's output is kept, in bytes: a line that prints 100 MB must not make a page of 100 MB."""

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Integer

_OVERHEAD = 300  # bytes that even an empty output adds to a page


class LimitBytes(NbGraderPreprocessor):
    """Cut long texts in the middle, leave out large pictures; a plain line says how much is missing.

    Errors and results stay, cut, because they are graded. nbgrader's own LimitOutput counts lines.
    """

    text = Integer(50_000, help="bytes of one text").tag(config=True)
    cell = Integer(500_000, help="bytes of the outputs of one cell").tag(config=True)
    notebook = Integer(2_000_000, help="bytes of the outputs of the whole notebook").tag(config=True)

    def preprocess(self, nb, resources):
        """Limit every output, in order."""
        left = self.notebook
        for cell in nb.cells:
            left -= self._limit(cell, min(self.cell, left))
        return nb, resources

    def _limit(self, cell: NotebookNode, room: int) -> int:
        """Make the cell's outputs fit into `room` as far as they may go. Returns their size."""
        used, left_out, kept = 0, 0, []
        for output in cell.get("outputs", []):
            before = _size(output)
            self._cut(output, room - used)
            size = _size(output)
            if used + size > room and output.output_type not in ("error", "execute_result"):
                left_out += before
            else:
                used += size
                kept.append(output)
        if left_out:
            line = f"… {left_out:,} bytes of output left out"
            kept.append(NotebookNode(output_type="stream", name="stdout", text=line))
        if "outputs" in cell:
            cell.outputs = kept
        return used

    def _cut(self, output: NotebookNode, room: int) -> None:
        if output.output_type == "stream":
            output.text = shortened(output.text, self.text)
        elif output.output_type == "error":
            output.evalue = shortened(output.evalue, self.text)
            each = max(500, self.text // max(1, len(output.traceback)))
            output.traceback = [shortened(part, each) for part in output.traceback]
        else:
            _cut_data(output.data, self.text, max(room, self.text))


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and its end with a line between them that says how much is missing."""
    # Only a text that may be too long is encoded; it has at most four bytes a character.
    if len(text) <= most // 4 or (size := _bytes(text)) <= most:
        return text
    head, tail = text[: most // 6], text[-most // 12 :]
    return f"{head}\n… {size - _bytes(head) - _bytes(tail):,} bytes left out …\n{tail}"


def _cut_data(data: dict, most: int, room: int) -> None:
    """A text is shortened; any other form of a value, which has no meaning in part, is left out whole."""
    if isinstance(data.get("text/plain"), str):
        data["text/plain"] = shortened(data["text/plain"], most)
    for kind, size in [(kind, _bytes(value)) for kind, value in data.items() if kind != "text/plain"]:
        if size > (room if kind.startswith("image/") else 2 * most):
            del data[kind]
            data["text/plain"] = f"{data.get('text/plain', '')}\n… {kind}: {size:,} bytes left out"


def _size(output: NotebookNode) -> int:
    if output.output_type == "stream":
        parts = [output.text]
    elif output.output_type == "error":
        parts = [output.evalue, *output.traceback]
    else:
        parts = output.data.values()
    return _OVERHEAD + sum(map(_bytes, parts))


def _bytes(value: object) -> int:
    return len(str(value).encode("utf-8", "replace"))
