"""A real rate series: the web requests stored next to the repository, as rate vectors over time."""

from __future__ import annotations

import numpy as np

from benchmarks import datasets
from planning.arrays import FloatArray
from planning.fit.network import QueryNetwork

NASA = "fit/nasa_http_requests_1s.parquet"


def requests(period_s: int = 10, rate_factor: float = 100.0) -> tuple[tuple[str, ...], FloatArray]:
    """Return the six kinds of web requests: names, and tuples/s per period of ``period_s``.

    The site served 0.67 requests a second; ``rate_factor`` makes it a busy one of the same shape.
    """
    names, counts = _read(NASA, "requests_")
    whole = len(counts) // period_s * period_s
    summed = counts[:whole].reshape(-1, period_s, len(names)).sum(axis=1)
    return names, summed * (rate_factor / period_s)


def _read(file: str, prefix: str) -> tuple[tuple[str, ...], FloatArray]:
    import pyarrow.parquet as parquet

    table = parquet.read_table(datasets.find(file))
    names = tuple(name for name in table.column_names if name.startswith(prefix))
    columns = [table.column(name).to_numpy().astype(np.float64) for name in names]
    return tuple(name.removeprefix(prefix) for name in names), np.stack(columns, axis=1)


def web_rates(network: QueryNetwork, period_s: int = 10) -> FloatArray:
    """Return the NASA request rates in the order of a web network's inputs."""
    names, rates = requests(period_s)
    order = [names.index(name) for name in network.input_ids]
    return np.ascontiguousarray(rates[:, order])
