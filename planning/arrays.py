"""Array types and the few array helpers that every family uses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planning.errors import StatisticsError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Columns = Mapping[str, NDArray[np.generic]]
"""Samples in memory: attribute name to a 1-D array; all arrays have the same length."""


def frozen(values: ArrayLike) -> FloatArray:
    """Return a read-only float64 copy of ``values``.

    >>> frozen([1, 2]).flags.writeable
    False
    """
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


def single_precision(values: ArrayLike) -> FloatArray:
    """Round to float32 and back, as the binary form of a plan stores its values.

    >>> single_precision([0.1]).tolist()
    [0.10000000149011612]
    """
    return frozen(np.asarray(values, dtype=np.float32).astype(np.float64))


def frozen_ints(values: ArrayLike) -> IntArray:
    """Return a read-only int64 copy of ``values``."""
    array = np.array(values, dtype=np.int64)
    array.flags.writeable = False
    return array


def finite_array(field: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return a read-only float64 copy of finite ``values`` of this shape; −1 means any length.

    >>> finite_array("rates", [[1, 2]], (-1, 2)).shape
    (1, 2)
    >>> finite_array("rates", [1], (2,))
    Traceback (most recent call last):
    ...
    planning.errors.StatisticsError: rates must be finite numbers of shape (2,), got shape (1,)
    """
    array = frozen(values)
    fits = array.ndim == len(shape) and all(
        wanted in (-1, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits or not np.isfinite(array).all():
        given = f"shape {array.shape}" if not fits else "NaN or infinity"
        raise StatisticsError(f"{field} must be finite numbers of shape {shape}, got {given}")
    return array


def for_reading(values: ArrayLike) -> FloatArray:
    """Return a contiguous read-only float64 view, or a copy where none is possible.

    Compiled code treats read-only and writable arrays as two types: passing only one kind avoids a
    second compilation in the data path.

    >>> for_reading(np.arange(2.0)).flags.writeable
    False
    """
    view = np.ascontiguousarray(values, dtype=np.float64).view()
    view.flags.writeable = False
    return view


def sorted_sum(values: ArrayLike) -> float:
    """Sum after sorting, so that the order of arrival cannot change the last bits.

    >>> sorted_sum([0.1, 0.2, 0.3]) == sorted_sum([0.3, 0.1, 0.2])
    True
    """
    return float(np.sort(np.asarray(values, dtype=np.float64), axis=None).sum())
