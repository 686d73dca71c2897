"""Fill Numba's compile cache ahead, so that a node's first plan is in force within a second or two.

``python -m planning.runtime.warm`` needs no store and no planner, and ``headgate warm`` is the same
where the command is installed. Every plan in ``plans/`` is prepared as a client prepares a new one;
together they use every function that a node compiles.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from numba.core import caching, event

from planning import families
from planning.artifacts import codec
from planning.errors import PlanningError
from planning.families import Plan


@dataclass(frozen=True, slots=True)
class Warmed:
    """How long a family took, and how many functions were compiled; the others were loaded.

    >>> print(Warmed("sifter", 12.345, 7))
    sifter: 12.3 s, compiled 7 functions
    >>> print(Warmed("sifter", 0.52, 0))
    sifter: 0.5 s, loaded
    """

    family: str
    seconds: float
    compiled: int

    def __str__(self) -> str:
        what = f"compiled {self.compiled} functions" if self.compiled else "loaded"
        return f"{self.family}: {self.seconds:.1f} s, {what}"


def warm(names: Sequence[str] = (), *, offer_only: bool = False) -> Iterator[Warmed]:
    """Compile what the shedders of these families (all by default) need, family by family.

    With ``offer_only``, without what only the join operator itself needs (``push``).

    >>> next(warm(["sieve"]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    planning.errors.Mistake: family must be one of sifter, ..., got 'sieve'
    """
    wanted = [families.family(name).name for name in names or families.NAMES]
    place = cache_place()
    for name in wanted:
        began = time.perf_counter()
        try:
            with event.install_recorder("numba:compile") as compiled:
                from planning.runtime.compiling import forget_stale, mark
                from planning.runtime.preparing import prepare

                forget_stale(name)
                shedder: Any = families.family(name).room("shedder").Shedder
                options = {} if offer_only else shedder.EVERYTHING
                for plan in plans(name):
                    prepare(plan, name, options=options)
                mark(name)
        except OSError as error:
            raise _not_cached(place, error) from error
        starts = sum(entry.is_start for _, entry in compiled.buffer)
        yield Warmed(name, time.perf_counter() - began, starts)


def plans(family: str) -> Iterator[Plan]:
    """Yield small plans of a family that together use all of its compiled functions."""
    stored = files("planning.runtime").joinpath("plans").iterdir()
    for path in sorted(stored, key=lambda path: path.name):
        if path.name.removesuffix(".bin").partition("-")[0] == family:
            yield codec.decode(path.read_bytes(), "binary", path.name)[1]


def cache_place() -> str:
    """Return where Numba keeps what it compiles; raise unless it can be written.

    Without ``NUMBA_CACHE_DIR`` this is ``__pycache__`` beside each module, or a folder of this user
    if that cannot be written.
    """
    beside = Path(__file__).parent / "__pycache__"
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    cache: Any = caching.FunctionCache
    try:
        folder = Path(cache(cache_place).cache_path)
    except RuntimeError as error:
        raise _not_cached(chosen or str(beside), error) from None
    if chosen:
        if Path(chosen).absolute() not in folder.absolute().parents:
            # Numba itself falls back without a word.
            raise _not_cached(chosen, "named by NUMBA_CACHE_DIR")
        return chosen
    if folder == beside:
        return f"__pycache__ beside the modules in {beside.parents[1]}"
    return str(folder.parent)


def _not_cached(place: str, why: object) -> PlanningError:
    return PlanningError(
        f"the compile cache must be in a folder that user {os.geteuid()} may write, got {place} "
        f"({why}); let that user write there, or name another folder in NUMBA_CACHE_DIR, here and "
        "where the node runs"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Warm the families on the command line, or all."""
    parser = argparse.ArgumentParser(prog="python -m planning.runtime.warm", description=__doc__)
    parser.add_argument("family", nargs="*", help=", ".join(families.NAMES) + "; all by default")
    parser.add_argument("--offer-only", action="store_true", help="leave out the join operator")
    given = parser.parse_args(argv)
    try:
        report(given.family, offer_only=given.offer_only)
    except PlanningError as error:
        print(f"headgate: {error}", file=sys.stderr)
        return 1
    return 0


def report(names: Sequence[str], *, offer_only: bool = False) -> None:
    """Warm families and print a line for each."""
    for warmed in warm(names, offer_only=offer_only):
        print(warmed, flush=True)
    print(f"cache: {cache_place()}")


if __name__ == "__main__":
    sys.exit(main())
