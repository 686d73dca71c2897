"""The paper's detector of cycles (IV-A): a period that holds without exception.

``detector: exact`` selects it; successor votes have replaced it, because one lost tuple in a
thousand is enough to hide every period.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numba
import numpy as np

from planning.arrays import IntArray
from planning.attributes.cycles import CycleIdentifier, Replicated, codes_of
from planning.columns import Encoded


def detect(columns: Mapping[str, Encoded], rows: int) -> CycleIdentifier:
    """Detect as the paper does: exact periods, groups by length, product of lengths.

    The product (Example 1) is wrong unless the lengths are coprime:

    >>> from planning.columns import encode
    >>> columns = {"four": encode(np.arange(96) % 4), "six": encode(np.arange(96) % 6)}
    >>> detect(columns, 96).length
    24
    """
    replicated: list[Replicated] = []
    for name, column in columns.items():
        codes, distinct = codes_of(column, rows)
        period = int(exact_period(codes))
        if distinct > 1 and 1 < period <= rows // 2:
            replicated.append(Replicated(name, period, 1.0, distinct == period))
    groups: dict[int, list[str]] = {}
    for one in replicated:
        groups.setdefault(one.length, []).append(one.name)
    return CycleIdentifier(
        tuple(names[0] for names in groups.values()),
        math.prod(groups),
        tuple(replicated),
        tuple(tuple(names) for names in groups.values()),
    )


@numba.njit(cache=True)
def exact_period(codes: IntArray) -> int:
    """Return the smallest period of the whole sequence (Knuth–Morris–Pratt failure function)."""
    n = len(codes)
    fail = np.zeros(n, np.int64)
    k = 0
    for i in range(1, n):
        while k > 0 and codes[i] != codes[k]:
            k = fail[k - 1]
        if codes[i] == codes[k]:
            k += 1
        fail[i] = k
    return n - fail[n - 1] if n else 0
