"""The one hash function: splitmix64, which scatters rows, keys and chances.

``mixed`` is written once and used twice: on NumPy arrays as it is, and compiled by the
families' ``kernels`` (``njit(mixed)``) on single numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio
FIRST_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
SECOND_MULTIPLIER = np.uint64(0x94D049BB133111EB)
FIRST_SHIFT, SECOND_SHIFT, LAST_SHIFT = np.uint64(30), np.uint64(27), np.uint64(31)


def mixed(bits: Any) -> Any:
    """Finish a splitmix64 step (Steele, Lea, Flood 2014): each input bit affects every output bit.

    Takes and returns ``uint64``, one number or an array.

    >>> hex(int(mixed(np.array([1], dtype=np.uint64))[0]))
    '0x5692161d100b05e5'
    """
    bits = (bits ^ (bits >> FIRST_SHIFT)) * FIRST_MULTIPLIER
    bits = (bits ^ (bits >> SECOND_SHIFT)) * SECOND_MULTIPLIER
    return bits ^ (bits >> LAST_SHIFT)
