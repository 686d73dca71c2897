"""Deterministic sampling: the same rows give the same sample, however they are ordered or split.

A row's key is a hash of its values, so it is the same on every machine and in every partition.
Rows sorted by key are in an order that has nothing to do with their values; a holdout is a range
of keys, and the bounded sample U takes every N/n-th row of that order. Copies of a row share one
key and are adjacent, so each value enters U in proportion to its frequency.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planning.arrays import BoolArray, IntArray
from planning.errors import InvalidInput, check_between
from planning.hashing import GOLDEN, mixed

KeyArray = NDArray[np.uint64]


def stable_keys(columns: Sequence[NDArray[np.generic]]) -> KeyArray:
    """Return one 64-bit key per row; equal rows have equal keys.

    Numbers count by value (1, 1.0 and np.float32(1) agree, as do 0.0 and -0.0), anything else by
    its text.

    >>> keys = stable_keys([np.array([1, 2, 1]), np.array(["a", "b", "a"])])
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    if not columns:
        raise InvalidInput("columns must be at least one array, got none")
    keys = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        keys = mixed((keys + GOLDEN) ^ _bits(np.asarray(column)))
    return keys


def in_holdout(keys: KeyArray, fraction: float) -> BoolArray:
    """Return which rows are held out: those in the first ``fraction`` of all possible keys.

    >>> in_holdout(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 0.5).tolist()
    [True, False, False]
    """
    share = check_between("holdout", fraction, 0, 1)
    if share == 1.0:
        return np.ones(keys.shape, dtype=np.bool_)
    return np.asarray(keys < np.uint64(int(share * 2.0**64)))


def sample_ranks(total: int, size: int) -> IntArray:
    """Return the ranks, in key order, of the rows that form a sample of ``size`` out of ``total``.

    Every total/size-th row from the middle of the first stretch; all if there are at most ``size``.

    >>> sample_ranks(10, 5).tolist()
    [1, 3, 5, 7, 9]
    >>> sample_ranks(3, 5).tolist()
    [0, 1, 2]
    """
    if size < 1 or total < 0:
        raise InvalidInput(f"size must be >= 1 and total >= 0, got {size} and {total}")
    if total <= size:
        return np.arange(total, dtype=np.int64)
    # Python's integers: (2i + 1) * total may exceed 2**63.
    return np.array([(2 * i + 1) * total // (2 * size) for i in range(size)], dtype=np.int64)


def key_order(columns: Sequence[NDArray[np.generic]], keys: KeyArray | None = None) -> IntArray:
    """Return the indices that sort rows by key; the values themselves break ties.

    >>> values = np.array([3, 7, 1, 7])
    >>> again = np.array([7, 1, 7, 3])  # the same rows, arrived in another order
    >>> (values[key_order([values])] == again[key_order([again])]).all().item()
    True
    """
    keys = stable_keys(columns) if keys is None else keys
    values = [c.astype(str) if c.dtype.kind == "O" else c for c in columns]
    return np.lexsort((*reversed(values), keys)).astype(np.int64)


def draw(columns: Sequence[NDArray[np.generic]], size: int) -> IntArray:
    """Return the indices of a sample of ``size`` rows, in key order.

    Which rows are drawn depends on the multiset of rows alone, not on their order.

    >>> values = np.array([7, 7, 7, 7, 7, 7, 3, 3, 3])
    >>> sorted(values[draw([values], 3)].tolist())
    [3, 7, 7]
    """
    return np.asarray(key_order(columns)[sample_ranks(len(columns[0]), size)])


def _bits(column: NDArray[np.generic]) -> KeyArray:
    if column.dtype.kind in "biuf":
        # Adding zero turns -0.0 into 0.0.
        return (column.astype(np.float64) + 0.0).view(np.uint64)
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]").astype(np.int64).view(np.uint64)
    texts = [str(value) for value in column.tolist()]
    # Once per distinct text: columns of texts are mostly categories and identifiers.
    hashed = {text: _text_bits(text) for text in set(texts)}
    return np.array([hashed[text] for text in texts], dtype=np.uint64)


def _text_bits(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")

