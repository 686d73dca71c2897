"""What is in a landing folder: complete files, files still being written, unreadable ones.

A Parquet file is complete once its footer is there. JSON lines have no end mark, so such a file
counts as complete once it has not been written to for ``settle_s`` seconds. A file without a valid
footer is left alone for the same time and set aside whole afterwards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from planning.errors import StoreError
from planning.stages.ledger import LandedFile

SUFFIXES = {"parquet": (".parquet",), "jsonl": (".jsonl", ".ndjson", ".json")}
UNFINISHED_SUFFIXES = (".tmp", ".part", ".inprogress", "._COPYING_")
CHUNK = 1 << 20
PROBED_LINES = 100


class Unreadable(Exception):
    """A file that cannot be used, and why.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (UPath(folder) / "ticks.parquet").write_bytes(b"PAR1 and then the power failed")
    ...     try:
    ...         read_file(scan(UPath(folder), "parquet")[0], "parquet", ["price"])
    ...     except Unreadable as problem:
    ...         print(str(problem).split(":")[0])
    is not a whole Parquet file
    """

    finished = False  # whether the file is whole, so that waiting will not help


class Unfit(Unreadable):
    """A whole file that cannot be used: waiting does not help.

    >>> Unreadable("is not whole").finished, Unfit("holds no rows").finished
    (False, True)
    """

    finished = True


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file of the landing folder before it is read.

    Examples
    --------
    >>> arrival = Arrival(UPath("ticks.jsonl"), size=10, modified_ns=1_000_000_000)
    >>> [arrival.settled(now_ns, settle_s=5) for now_ns in (3_000_000_000, 9_000_000_000)]
    [False, True]
    """

    path: UPath
    size: int
    modified_ns: int

    def settled(self, now_ns: int, settle_s: float) -> bool:
        """Whether the file has not been written to for ``settle_s`` seconds."""
        return now_ns - self.modified_ns >= settle_s * 1e9


def scan(folder: UPath, file_format: str) -> list[Arrival]:
    """Return the data files of ``folder``, oldest first, without hidden and temporary ones.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("ticks.jsonl", ".ticks.jsonl", "ticks.jsonl.part", "README.md"):
    ...         _ = (UPath(folder) / name).write_text("{}")
    ...     [arrival.path.name for arrival in scan(UPath(folder), "jsonl")]
    ['ticks.jsonl']
    """
    try:
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
        paths = [p for p in folder.iterdir() if _is_data(p.name, file_format)]
        arrivals = []
        for path in paths:
            try:
                status = path.stat()
            except FileNotFoundError:  # gone since it was listed
                continue
            modified_ns = getattr(status, "st_mtime_ns", None) or int(status.st_mtime * 1e9)
            arrivals.append(Arrival(path, int(status.st_size), int(modified_ns)))
    except (OSError, ImportError, ValueError) as error:
        raise StoreError(
            f"the landing folder {folder} cannot be read ({error}); check samples.landing in the "
            "stream definition, the folder's permissions, and that the file system's fsspec "
            "package is installed"
        ) from error
    return sorted(arrivals, key=lambda a: (a.modified_ns, a.path.name))


def _is_data(name: str, file_format: str) -> bool:
    if name.startswith((".", "_")) or name.endswith(UNFINISHED_SUFFIXES):
        return False
    return name.endswith(SUFFIXES[file_format])


def read_file(arrival: Arrival, file_format: str, columns: Sequence[str]) -> LandedFile:
    """Read through a file once: its digest and row count; raise :class:`Unreadable` if broken.

    >>> import tempfile
    >>> from planning.demos import land_batch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = land_batch(UPath(folder), 0, {"price": [12.5, 80.0]})
    ...     read_file(scan(UPath(folder), "parquet")[0], "parquet", ["price"]).rows
    2
    """
    try:
        rows = _parquet_rows(arrival, columns) if file_format == "parquet" else _json_rows(arrival)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error}") from error
    if rows == 0:
        raise Unfit("holds no rows")
    content = digest(arrival.path)
    return LandedFile(str(arrival.path), arrival.size, arrival.modified_ns, content, rows=rows)


def digest(path: UPath) -> str:
    """Return the SHA-256 of a file's content.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (UPath(folder) / "empty").write_bytes(b"")
    ...     digest(UPath(folder) / "empty")[:16]
    'e3b0c44298fc1c14'
    """
    sha = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


def _parquet_rows(arrival: Arrival, columns: Sequence[str]) -> int:
    with arrival.path.open("rb") as stream:
        try:
            file = pq.ParquetFile(stream)
            missing = sorted(set(columns) - set(file.schema_arrow.names))
            if missing:
                raise Unfit(f"lacks the columns {', '.join(missing)}")
            return sum(b.num_rows for b in file.iter_batches(columns=list(columns)))
        except (pa.ArrowException, OSError) as error:
            raise Unreadable(f"is not a whole Parquet file: {error}") from error


def _json_rows(arrival: Arrival) -> int:
    rows = objects = 0
    with arrival.path.open("rb") as stream:
        for line in stream:
            if not line.strip():
                continue
            rows += 1
            if rows <= PROBED_LINES:
                objects += _is_object(line)
    if rows and not objects:
        raise Unreadable(f"holds no JSON object in its first {min(rows, PROBED_LINES)} lines")
    return rows


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, UnicodeDecodeError):
        return False
