"""The paper's ranking (IV-C2): attributes are shed one by one, the least deviation first.

``method: paper`` selects it; the exact frontier has replaced it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from planning.attributes.path import Frontier, Part

if TYPE_CHECKING:
    from planning.attributes.planner.menu import Source


def shedding_order(deviations: ArrayLike) -> tuple[int, ...]:
    """Return attributes from least to most informative; ties by index (paper IV-C2).

    >>> shedding_order([7, 5, 1])
    (2, 1, 0)
    """
    return tuple(int(j) for j in np.argsort(np.asarray(deviations), kind="stable"))


def nested_schemes(source: Source) -> Part:
    """Return the paper's nested schemes: attributes shed one by one, least deviation first."""
    (table,) = source.tables()
    items = source.stream.items
    order = shedding_order([source.profile.attributes[j].deviation for j in items])
    shed = np.zeros((len(items) + 1, len(items)), dtype=np.uint8)
    for step, item in enumerate(order):
        shed[step + 1 :, item] = 1
    shed = shed[::-1]
    columns = np.arange(len(items))
    shape = (len(items), len(table.mode.options))
    weight = np.array(table.costs, dtype=np.int64).reshape(shape)[columns, shed].sum(axis=1)
    loss = np.array(table.losses, dtype=np.float64).reshape(shape)[columns, shed].sum(axis=1)
    return source.part(Frontier(weight, loss, shed), table)
