"""Bit operations that Numba lacks, and the vertical bitmaps of the bitset engine.

A window keeps one bitmap per item: bit p of item a's bitmap says whether the stored tuple at
position p contains a. A probe of m items then touches m bitmaps, and 64 stored tuples are compared
by a handful of word operations, whatever the condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import extending, njit, types
from numba.core import cgutils
from numpy.typing import NDArray

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Words = NDArray[np.uint64]
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
NONE = np.uint64(0)
intrinsic: Any = extending.intrinsic  # as typed there, a caller would give the typing context


def inner(function: Kernel) -> Kernel:
    """Compile what only compiled code calls: a way in from Python would cost as much again."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def spliced(function: Kernel) -> Kernel:
    """Compile into the caller: passing the whole state on costs more than most calls do."""
    return _compiled(function, inline="always")


def entry(function: Kernel) -> Kernel:
    """Compile what Python calls too."""
    return _compiled(function)


def _compiled(function: Kernel, **options: Any) -> Kernel:
    """Compile without counting references, which took most of a tuple's time.

    Kernels make views of arrays at every tuple, but neither allocate nor keep any.
    """
    untyped: Any = njit  # the types of njit leave these options out
    kernel: Kernel = untyped(cache=True, nogil=True, _nrt=False, **options)(function)
    return kernel


@intrinsic
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Return the position of the lowest set bit of a uint64 (64 for zero)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], cgutils.false_bit)

    return types.uint64(types.uint64), codegen


@inner
def inside(base: int, low: int, high: int) -> np.uint64:
    """Mask of the word at position ``base``: its bits from ``low`` up to ``high``."""
    mask = ALL
    if base < low:
        mask &= ALL << np.uint64(low - base)
    if base + 64 > high:
        mask &= ALL >> np.uint64(base + 64 - high)
    return mask


@inner
def fill_rows(work: Words, begin: int, end: int, width: int, word: np.uint64) -> None:
    """Set the first words of rows ``begin`` to ``end`` (exclusive)."""
    for row in range(begin, end):
        for k in range(width):
            work[row, k] = word


@inner
def copy_into(target: Words, row: Words) -> None:
    """Target = row."""
    for k in range(target.size):
        target[k] = row[k]


@inner
def or_into(target: Words, row: Words) -> None:
    """Target |= row."""
    for k in range(target.size):
        target[k] |= row[k]


@inner
def and_into(target: Words, row: Words) -> None:
    """Target &= row."""
    for k in range(target.size):
        target[k] &= row[k]


@inner
def or_and_into(target: Words, left: Words, right: Words) -> None:
    """Target |= left & right."""
    for k in range(target.size):
        target[k] |= left[k] & right[k]


@inner
def and_same_into(target: Words, left: Words, right: Words) -> None:
    """Target &= ~(left ^ right): keep where both agree."""
    for k in range(target.size):
        target[k] &= ~(left[k] ^ right[k])


@inner
def add_bit(counter: Words, carry: Words) -> None:
    """One digit of a vertical counter: add ``carry`` to it and leave the new carry behind."""
    for k in range(counter.size):
        both = counter[k] & carry[k]
        counter[k] ^= carry[k]
        carry[k] = both


@inner
def at_least(
    work: Words, width: int, bits: Words, items: NDArray[np.int64], low: int, count: int
) -> int:
    """Tuples that share at least ``count`` items with the probe; returns the row of ``work``.

    Row k of ``work`` marks tuples with more than k common items so far (a unary counter).
    """
    if items.size < count:
        fill_rows(work, 0, 1, width, NONE)
        return 0
    fill_rows(work, 0, count, width, NONE)
    for q in range(items.size):
        row = bits[items[q], low : low + width]
        for level in range(min(q, count - 1), 0, -1):
            or_and_into(work[level, :width], work[level - 1, :width], row)
        or_into(work[0, :width], row)
    return count - 1


@inner
def containing(work: Words, width: int, bits: Words, items: NDArray[np.int64], low: int) -> int:
    """Tuples that contain every item of the probe; returns the row of ``work``."""
    fill_rows(work, 0, 1, width, ALL)
    for q in range(items.size):
        and_into(work[0, :width], bits[items[q], low : low + width])
    return 0


@inner
def contained(
    work: Words, width: int, bits: Words, sizes: Words, items: NDArray[np.int64], low: int
) -> int:
    """Tuples whose every item is in the probe: common items = own size, digit by digit."""
    digits = sizes.shape[0]
    fill_rows(work, 2, 2 + digits, width, NONE)
    for q in range(items.size):
        copy_into(work[1, :width], bits[items[q], low : low + width])
        for d in range(digits):
            add_bit(work[2 + d, :width], work[1, :width])
    fill_rows(work, 0, 1, width, ALL)
    for d in range(digits):
        and_same_into(work[0, :width], work[2 + d, :width], sizes[d, low : low + width])
    return 0


@inner
def keep_size(work: Words, width: int, sizes: Words, size: int, low: int) -> None:
    """Clear in row 0 of ``work`` the tuples that do not have exactly ``size`` items."""
    for d in range(sizes.shape[0]):
        other = NONE if (size >> d) & 1 else ALL
        for k in range(width):
            work[0, k] &= sizes[d, low + k] ^ other
