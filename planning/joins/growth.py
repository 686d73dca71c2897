"""Windows that outgrow their arrays: move what is kept into larger ones."""

from __future__ import annotations

import numpy as np

from planning.joins import kernels
from planning.joins.kernels import POSTED, SEQ, TAIL, State


def first_posting(state: State, i: int) -> int:
    """Return the number of the oldest live posting of window i."""
    tail = int(state.meta[i, TAIL])
    if tail == state.meta[i, SEQ]:
        return int(state.meta[i, POSTED])
    return int(state.first[i, tail & (state.time.shape[1] - 1)])


def move(old: State, new: State, access: int) -> None:
    """Move the live tuples of both windows into larger arrays."""
    new.meta[:] = old.meta
    new.starts[:] = old.starts
    for i in range(2):
        seqs = np.arange(old.meta[i, TAIL], old.meta[i, SEQ])
        source, target = seqs & (old.time.shape[1] - 1), seqs & (new.time.shape[1] - 1)
        for name in ("time", "kind", "ident", "epoch", "size", "first"):
            getattr(new, name)[i, target] = getattr(old, name)[i, source]
        nodes = np.arange(first_posting(old, i), old.meta[i, POSTED])
        source, target = nodes & (old.items.shape[1] - 1), nodes & (new.items.shape[1] - 1)
        new.items[i, target] = old.items[i, source]
        new.weights[i, target] = old.weights[i, source]
        if access == kernels.SCAN_BITS:
            words = np.arange(int(old.meta[i, TAIL]) >> 6, (int(old.meta[i, SEQ]) + 63) >> 6)
            source, target = words % (old.time.shape[1] >> 6), words % (new.time.shape[1] >> 6)
            new.bits[i][:, target] = old.bits[i][:, source]
            new.size_bits[i][:, target] = old.size_bits[i][:, source]
        elif nodes.size:
            new.owner[i, target] = old.owner[i, source]
            kernels.hang_all(new, i, int(nodes[0]), access)
