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
import importlib
import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

MOST_S = 300.0
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
    if not _marker(name).exists() and not _compile_elsewhere(name):
        forget_stale(name)
    with undisturbed():
        yield
    mark(name)


def forget_stale(name: str) -> None:
    """Remove what other code left in the cache for a family; nothing if there is its marker."""
    if _marker(name).exists():
        return
    importlib.import_module(f"planning.{name}.shedder")
    modules = [module for key, module in sys.modules.items() if key.startswith("planning.")]
    for thing in [thing for module in modules for thing in vars(module).values()]:
        file = getattr(getattr(thing, "_cache", None), "_cache_file", None)
        if file is not None:
            Path(file._index_path).unlink(missing_ok=True)


def mark(name: str) -> None:
    """Note that everything a family needs is in the cache."""
    _loaded.add(name)
    marker = _marker(name)
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
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
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        subprocess.run(
            [sys.executable, "-m", "planning.runtime.warm", name],
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
    folder = os.environ.get("NUMBA_CACHE_DIR") or str(Path(__file__).parent / "__pycache__")
    spec = importlib.util.find_spec(f"planning.{name}")
    room = Path((spec and spec.origin) or __file__).parent
    sources = sorted([*room.rglob("*.py"), *Path(__file__).parents[1].glob("*.py")])
    from importlib import metadata

    libraries = [metadata.version(library) for library in ("numba", "numpy", "llvmlite")]
    digest = hashlib.sha256("|".join([sys.version, *libraries]).encode())
    for path in sources:
        digest.update(path.read_bytes())
    return Path(folder) / f"headgate-{name}-{digest.hexdigest()[:16]}.compiled"
