"""What a compressed file holds: some upload the archive of a notebook in the notebook's place."""

import io
import zipfile
import zlib

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others ask for as much memory as they like
MOST = 100 * 2**20  # bytes that are unpacked; an archive of some kB can hold more than there is memory


class CannotBeUnpacked(ValueError):
    """The message says in one line why."""


def unpacked(data: bytes) -> bytes:
    """The notebook's bytes in a zip archive or a gzip file; what is neither comes back as it is.

    Of an archive that is the one file in it whose name is a notebook's. Raises `CannotBeUnpacked`.
    """
    try:
        if data.startswith(b"\x1f\x8b"):
            stream = zlib.decompressobj(16 + zlib.MAX_WBITS)  # gzip's header and checksum
            return _within_limits(stream.decompress(data, MOST + 1))
        if data.startswith(b"PK\x03\x04"):
            return _notebook_in(zipfile.ZipFile(io.BytesIO(data)))
    except CannotBeUnpacked:
        raise
    except Exception as error:  # it is damaged, or locked: that has many types
        raise CannotBeUnpacked(f"this is a compressed file that cannot be unpacked ({error}).") from None
    return data


def _notebook_in(archive: zipfile.ZipFile) -> bytes:
    notebooks = [entry for entry in archive.infolist() if _may_be_a_notebook(entry.filename)]
    if len(notebooks) != 1:
        raise CannotBeUnpacked(f"this is an archive with {len(notebooks) or 'no'} notebooks in it: unpack it.")
    if notebooks[0].compress_type not in _METHODS:
        raise CannotBeUnpacked("this is an archive of an unusual kind: unpack it.")
    with archive.open(notebooks[0]) as file:
        return _within_limits(file.read(MOST + 1))


def _may_be_a_notebook(name: str) -> bool:
    """A Mac adds a file of its own for each one, below `__MACOSX`; JupyterLab keeps what it has saved by itself."""
    parts = name.split("/")
    return parts[-1].lower().endswith(".ipynb") and not any(part.startswith((".", "__MACOSX")) for part in parts)


def _within_limits(data: bytes) -> bytes:
    if len(data) > MOST:
        raise CannotBeUnpacked(f"this is a compressed file of more than {MOST >> 20} MB.")
    return data
