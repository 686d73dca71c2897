"""Compile in another process, so that this one never stands still for it.

Compiling takes seconds, in which the compiler holds Python's global lock for stretches and leaves
garbage whose collection stops every thread. So a node with a cold cache lets another process fill
it, with the very plan that waits, and then only loads what was compiled.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from planning.artifacts import Published, codec

MOST_S = 300.0
_loaded: set[str] = set()
log = logging.getLogger(__name__)


def compiled(published: Published, prepare: Callable[[], Any]) -> Any:
    """Return what ``prepare`` makes of a plan, having compiled it elsewhere if it is the first.

    Where that cannot be done, preparing compiles in this process.
    """
    name = published.manifest.family
    if name in _loaded:
        return prepare()
    if not _marker(name).exists() and not _compile_elsewhere(published):
        forget_stale(name)
    with undisturbed():
        prepared = prepare()
    mark(name)
    return prepared


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


def _compile_elsewhere(published: Published) -> bool:
    """Return whether another process has filled the cache."""
    name = published.manifest.family
    path = os.pathsep.join(entry for entry in sys.path if entry)
    try:
        subprocess.run(
            [sys.executable, "-m", "planning.runtime.compiling"],
            input=codec.encode(published.plan, name, "binary"),
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
    libraries = [metadata.version(library) for library in ("numba", "numpy", "llvmlite")]
    digest = hashlib.sha256("|".join([sys.version, *libraries]).encode())
    for path in sources:
        digest.update(path.read_bytes())
    return Path(folder) / f"headgate-{name}-{digest.hexdigest()[:16]}.compiled"


def _main() -> None:
    """Prepare the plan that comes in, and all others of its family that compile something else."""
    from planning.runtime.preparing import prepare
    from planning.runtime.warm import plans

    name, plan = codec.decode(sys.stdin.buffer.read(), "binary")
    forget_stale(name)
    for waiting in (plan, *plans(name)):
        prepare(waiting, name)


if __name__ == "__main__":
    _main()
