"""Statistics of a query network: measured costs and selectivities, and the input rates over time.

A sample row counts what one element did in one control period: ``period``, ``element``,
``tuples_in`` (a join's first port), ``tuples_in_1`` (its second), ``tuples_out``, ``cpu_us``. For
an input only ``tuples_out`` counts. All sums are over whole numbers, so the Spark app gives the
same bytes as ``build``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planning import sampling
from planning.arrays import Columns, FloatArray, IntArray, finite_array, frozen
from planning.errors import StatisticsError
from planning.fit.model import Operator
from planning.fit.network import QueryNetwork

if TYPE_CHECKING:
    from planning.families import Definition
    from planning.fit.parameters import Parameters

SUMS = ("tuples_in", "tuples_in_1", "tuples_out", "cpu_us")


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The network as measured, and how fast its inputs arrive.

    Examples
    --------
    >>> from planning.examples import demo_definition, demo_samples
    >>> statistics = build(demo_samples("fit"), demo_definition("fit"))
    >>> statistics.periods, bool((statistics.highest_rates > statistics.mean_rates).all())
    (715, True)
    >>> measured = statistics.network.operator["thumbnails"]
    >>> round(measured.cost, 3), round(measured.selectivity, 2)  # 0.01 and 0.5 were declared
    (0.01, 0.5)
    """

    network: QueryNetwork
    mean_rates: FloatArray  # tuples/s
    highest_rates: FloatArray  # tuples/s in the busiest period of each input
    rates: FloatArray  # (sampled periods, inputs): observed rate vectors
    periods: int  # complete periods
    tuples: dict[str, int]  # arrivals per operator behind its measurement
    successive: FloatArray  # (sampled pairs, 2 x inputs): rates of a period, then of the next one

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "network": self.network.to_document(),
            "mean_rates": self.mean_rates.tolist(),
            "highest_rates": self.highest_rates.tolist(),
            "rates": self.rates.tolist(),
            "periods": self.periods,
            "tuples": dict(self.tuples),
            "successive": self.successive.tolist(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Statistics:
        """Read the JSON form back."""
        network = QueryNetwork.from_document(document["network"])
        inputs = len(network.inputs)
        return cls(
            network=network,
            mean_rates=finite_array("mean_rates", document["mean_rates"], (inputs,)),
            highest_rates=finite_array("highest_rates", document["highest_rates"], (inputs,)),
            rates=finite_array("rates", document["rates"], (-1, inputs)),
            periods=int(document["periods"]),
            tuples={name: int(count) for name, count in document["tuples"].items()},
            successive=finite_array(
                "successive", document.get("successive") or np.empty((0, 2 * inputs)),
                (-1, 2 * inputs),
            ),
        )


def build(samples: Columns, definition: Definition[Parameters]) -> Statistics:
    """Build the statistics of samples that fit in memory."""
    network = definition.parameters.query_network
    periods, counts = _complete(samples, network)
    if not len(counts):
        raise no_periods(network)
    size = definition.parameters.rate_sample
    first = np.flatnonzero(np.diff(periods) == 1)
    return assemble(
        element_sums(samples),
        counts.sum(axis=0),
        counts.max(axis=0),
        len(counts),
        _drawn(counts, size),
        _drawn(np.hstack([counts[first], counts[first + 1]]), size),
        definition,
    )


def _drawn(counts: IntArray, size: int) -> FloatArray:
    """Draw a bounded sample of rows."""
    if not len(counts):
        return counts.astype(np.float64)
    drawn = counts[sampling.draw(list(counts.T.astype(np.float64)), size)]
    return np.asarray(drawn, dtype=np.float64)


def no_periods(network: QueryNetwork) -> StatisticsError:
    """Return the error for samples without one complete period."""
    return StatisticsError(
        f"samples must hold at least one period with a row for every input "
        f"({', '.join(network.input_ids)}), got none; check the landing folder and the quarantine"
    )


def element_sums(samples: Columns) -> dict[str, dict[str, int]]:
    """Sum the counts of every element."""
    names, places = np.unique(np.asarray(samples["element"]).astype(str), return_inverse=True)
    sums: dict[str, dict[str, int]] = {name: {} for name in names.tolist()}
    for column in SUMS:
        values = np.asarray(samples[column], dtype=np.float64).astype(np.int64)
        totals = np.zeros(len(names), dtype=np.int64)
        np.add.at(totals, places, values)
        for name, total in zip(names.tolist(), totals.tolist(), strict=True):
            sums[name][column] = total
    return sums


def period_counts(samples: Columns, network: QueryNetwork) -> IntArray:
    """Return tuples per input (columns) for every period in which all inputs were counted."""
    return _complete(samples, network)[1]


def _complete(samples: Columns, network: QueryNetwork) -> tuple[IntArray, IntArray]:
    """Return the periods in which all inputs were counted, in order, and the counts."""
    elements = np.asarray(samples["element"]).astype(str)
    periods = np.asarray(samples["period"], dtype=np.float64).astype(np.int64)
    values = np.asarray(samples["tuples_out"], dtype=np.float64).astype(np.int64)
    known, places = np.unique(periods, return_inverse=True)
    counts = np.zeros((len(known), len(network.inputs)), dtype=np.int64)
    seen = np.zeros(counts.shape, dtype=np.bool_)
    for k, name in enumerate(network.input_ids):
        mine = elements == name
        np.add.at(counts[:, k], places[mine], values[mine])
        seen[places[mine], k] = True
    whole = seen.all(axis=1)
    return known[whole], counts[whole]


def assemble(
    sums: Mapping[str, Mapping[str, int]],
    totals: IntArray,
    highest: IntArray,
    periods: int,
    drawn: FloatArray,
    successive: FloatArray,
    definition: Definition[Parameters],
) -> Statistics:
    """Turn sums into measured operators and rates."""
    network = definition.parameters.query_network
    period_s = definition.parameters.period_s
    changes = {}
    tuples = {}
    for operator in network.operators:
        counted = sums.get(operator.id)
        if counted is not None:
            tuples[operator.id] = counted["tuples_in"] + counted["tuples_in_1"]
            changes[operator.id] = measured(operator, counted)
    return Statistics(
        network=network.with_operators(changes),
        mean_rates=frozen(np.asarray(totals) / (periods * period_s)),
        highest_rates=frozen(np.asarray(highest) / period_s),
        rates=frozen(np.asarray(drawn) / period_s),
        periods=periods,
        tuples=tuples,
        successive=frozen(np.asarray(successive) / period_s),
    )


def measured(operator: Operator, counted: Mapping[str, int]) -> dict[str, float]:
    """Return cost and selectivity from counts; without arrivals, the declared ones stay.

    >>> count = {"tuples_in": 200, "tuples_in_1": 0, "tuples_out": 50, "cpu_us": 400_000}
    >>> measured(Operator("f", "A", "filter", 1.0, 1.0, ("i",)), count)
    {'cost': 0.002, 'selectivity': 0.25}
    """
    first, second = counted["tuples_in"], counted["tuples_in_1"]
    if first + second <= 0:
        return {}
    cost = counted["cpu_us"] / 1e6 / (first + second)
    if operator.windows is not None:
        pairs = first * operator.windows[1] + second * operator.windows[0]
        return {"cost": cost, "selectivity": counted["tuples_out"] / pairs if pairs > 0 else 0.0}
    return {"cost": cost, "selectivity": min(counted["tuples_out"] / (first + second), 1.0)}
