"""Compile in another process, so that this one never stands still for it.

Compiling takes seconds, in which the compiler holds Python's global lock for stretches and leaves
garbage whose collection stops every thread. So a node with a cold cache lets another process fill
it, and then only loads what was compiled.

A marker in the cache folder says that this has been done for a family by just this code. Without
it, what the cache holds of the family is forgotten first: Numba looks only at the file that a
function is in, and would go on using what other files have changed.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

MOST_S = 300.0
_tried: set[str] = set()
_loaded: set[str] = set()
log = logging.getLogger(__name__)


@contextmanager
def at_hand(name: str) -> Iterator[None]:
    """Decode or prepare a family's plan inside; the first time, compile elsewhere before that.

    Where that cannot be done, this process compiles.
    """
    if name in _loaded:
        yield
        return
    if name not in _tried and not _marker(name).exists():
        _tried.add(name)
        if not _compile_elsewhere(name):
            forget_stale(name)
    with undisturbed():
        yield
    mark(name)


def forget_stale(name: str) -> None:
    """Remove what other code left in the cache for a family; nothing if there is its marker.

    By the names of the files: importing the modules would read what they hold.
    """
    if _marker(name).exists():
        return
    from numba.core import caching

    numba: Any = caching
    shared = (os.environ.get("NUMBA_CACHE_DIR"), numba.AppDirs("numba", False).user_cache_dir)
    for folder in {source.parent for source in _sources(name)}:
        own = numba._CacheLocator.get_suitable_cache_subpath(str(folder / "any.py"))
        places = [folder / "__pycache__", *(Path(root) / own for root in shared if root)]
        for index in (index for place in places for index in place.glob("*.nbi")):
            index.unlink(missing_ok=True)


def mark(name: str) -> None:
    """Note that everything a family needs is in the cache."""
    _loaded.add(name)
    marker = _marker(name)
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        for other in marker.parent.glob(f"headgate-{name}-*.compiled"):
            if other != marker:  # what other code compiled has been overwritten
                other.unlink(missing_ok=True)
        marker.touch()
    except OSError:
        pass  # the next start looks for it in vain, and finds all in the cache


@contextmanager
def undisturbed() -> Iterator[None]:
    """Load compiled code without a full garbage collection, which would stop every thread.

    What was loaded stays for good, so that later collections need not look at it either.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _compile_elsewhere(name: str) -> bool:
    """Return whether another process has filled the cache."""
    if not sys.executable:
        return False
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        subprocess.run(
            [sys.executable, "-m", "planning.runtime.warm", "--offer-only", name],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=MOST_S,
            check=True,
        )
        return True
    except (OSError, subprocess.SubprocessError) as error:
        log.info("family %s is compiled in this process: %s", name, error)
        return False


@cache
def _marker(name: str) -> Path:
    """Return the file that says that a family is compiled, by this version for these libraries."""
    folder = os.environ.get("NUMBA_CACHE_DIR")
    if not folder:
        folder = str(Path(__file__).parent / "__pycache__")
        if not os.access(Path(folder).parent, os.W_OK):  # Numba then uses a folder of the user
            folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    from importlib import metadata

    libraries = [metadata.version(library) for library in ("numba", "numpy", "llvmlite")]
    digest = hashlib.sha256("|".join([sys.version, *libraries]).encode())
    for path in _sources(name):
        digest.update(path.read_bytes())
    return Path(folder) / f"headgate-{name}-{digest.hexdigest()[:16]}.compiled"


def _sources(name: str) -> list[Path]:
    """Return the files of a family and of what all families share."""
    spec = importlib.util.find_spec(f"planning.{name}")
    room = Path((spec and spec.origin) or __file__).parent
    return sorted([*room.rglob("*.py"), *Path(__file__).parents[1].glob("*.py")])
