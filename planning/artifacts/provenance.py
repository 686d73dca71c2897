"""Which code made a plan."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def code_digest() -> str:
    """Return the SHA-256 of the library's sources, by name and content, however it is installed.

    >>> len(code_digest())
    64
    """
    digest = hashlib.sha256()
    for name, source in sorted(_sources(files("planning"), "planning")):
        digest.update(f"{name}\n{len(source)}\n".encode() + source)
    return digest.hexdigest()


def _sources(folder: Traversable, name: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for child in folder.iterdir():
        if child.is_dir():
            found += _sources(child, f"{name}/{child.name}")
        elif child.name.endswith(".py"):
            found.append((f"{name}/{child.name}", child.read_bytes().replace(b"\r\n", b"\n")))
    return found
