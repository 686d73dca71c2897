"""Where the real data sets are that reproductions and benchmarks read."""

from __future__ import annotations

import os
from pathlib import Path

from planning.errors import InvalidInput


def folder() -> Path:
    """Return the folder of real data sets: ``HEADGATE_DATA``, else next to the repository.

    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, HEADGATE_DATA="/srv/data"):
    ...     folder().as_posix()
    '/srv/data'
    """
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("HEADGATE_DATA") or beside)


def find(name: str) -> Path:
    """Return the path of a data set; an error if it is not there.

    >>> find("no/such.parquet")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    planning.errors.InvalidInput: data set no/such.parquet is not in ...; set HEADGATE_DATA to the \
folder of real data sets
    """
    path = folder() / name
    if not path.exists():
        raise InvalidInput(
            f"data set {name} is not in {folder()}; set HEADGATE_DATA to the folder of real data "
            "sets"
        )
    return path
