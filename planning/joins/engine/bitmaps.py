"""Bit operations that Numba lacks, and the vertical bitmaps of the bitset engine.

A window keeps one bitmap per item: bit p of item a's bitmap says whether the stored tuple at
position p contains a. A probe of m items then touches m bitmaps, and 64 stored tuples are compared
by a handful of word operations, whatever the condition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import extending, njit, types
from numba.core import cgutils
from numpy.typing import NDArray

Words = NDArray[np.uint64]
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)
intrinsic: Any = extending.intrinsic  # as typed there, a caller would give the typing context


@intrinsic
def trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Return the position of the lowest set bit of a uint64 (64 for zero)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], cgutils.false_bit)

    return types.uint64(types.uint64), codegen


@njit(cache=True, nogil=True)
def inside(base: int, low: int, high: int) -> np.uint64:
    """Mask of the word at position ``base``: its bits from ``low`` up to ``high``."""
    mask = ALL
    if base < low:
        mask &= ALL << np.uint64(low - base)
    if base + 64 > high:
        mask &= ALL >> np.uint64(base + 64 - high)
    return mask


@njit(cache=True, nogil=True)
def copy_into(target: Words, row: Words) -> None:
    """Target = row."""
    for k in range(target.size):
        target[k] = row[k]


@njit(cache=True, nogil=True)
def or_into(target: Words, row: Words) -> None:
    """Target |= row."""
    for k in range(target.size):
        target[k] |= row[k]


@njit(cache=True, nogil=True)
def and_into(target: Words, row: Words) -> None:
    """Target &= row."""
    for k in range(target.size):
        target[k] &= row[k]


@njit(cache=True, nogil=True)
def and_not_into(target: Words, row: Words) -> None:
    """Target &= ~row."""
    for k in range(target.size):
        target[k] &= ~row[k]


@njit(cache=True, nogil=True)
def or_and_into(target: Words, left: Words, right: Words) -> None:
    """Target |= left & right."""
    for k in range(target.size):
        target[k] |= left[k] & right[k]


@njit(cache=True, nogil=True)
def and_same_into(target: Words, left: Words, right: Words) -> None:
    """Target &= ~(left ^ right): keep where both agree."""
    for k in range(target.size):
        target[k] &= ~(left[k] ^ right[k])


@njit(cache=True, nogil=True)
def add_bit(counter: Words, carry: Words) -> None:
    """One digit of a vertical counter: add ``carry`` to it and leave the new carry behind."""
    for k in range(counter.size):
        both = counter[k] & carry[k]
        counter[k] ^= carry[k]
        carry[k] = both


@njit(cache=True, nogil=True)
def at_least(
    work: Words, width: int, bits: Words, items: NDArray[np.int64], low: int, count: int
) -> int:
    """Tuples that share at least ``count`` items with the probe; returns the row of ``work``.

    Row k of ``work`` marks tuples with more than k common items so far (a unary counter).
    """
    if items.size < count:
        work[0, :width] = 0
        return 0
    work[:count, :width] = 0
    for q in range(items.size):
        row = bits[items[q], low : low + width]
        for level in range(min(q, count - 1), 0, -1):
            or_and_into(work[level, :width], work[level - 1, :width], row)
        or_into(work[0, :width], row)
    return count - 1


@njit(cache=True, nogil=True)
def containing(work: Words, width: int, bits: Words, items: NDArray[np.int64], low: int) -> int:
    """Tuples that contain every item of the probe; returns the row of ``work``."""
    work[0, :width] = ALL
    for q in range(items.size):
        and_into(work[0, :width], bits[items[q], low : low + width])
    return 0


@njit(cache=True, nogil=True)
def contained(
    work: Words, width: int, bits: Words, sizes: Words, items: NDArray[np.int64], low: int
) -> int:
    """Tuples whose every item is in the probe: common items = own size, digit by digit."""
    digits = sizes.shape[0]
    work[2 : 2 + digits, :width] = 0
    for q in range(items.size):
        copy_into(work[1, :width], bits[items[q], low : low + width])
        for d in range(digits):
            add_bit(work[2 + d, :width], work[1, :width])
    work[0, :width] = ALL
    for d in range(digits):
        and_same_into(work[0, :width], work[2 + d, :width], sizes[d, low : low + width])
    return 0


@njit(cache=True, nogil=True)
def keep_size(work: Words, width: int, sizes: Words, size: int, low: int) -> None:
    """Clear in row 0 of ``work`` the tuples that do not have exactly ``size`` items."""
    for d in range(sizes.shape[0]):
        row = sizes[d, low : low + width]
        if (size >> d) & 1:
            and_into(work[0, :width], row)
        else:
            and_not_into(work[0, :width], row)
