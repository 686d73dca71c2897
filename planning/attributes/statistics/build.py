"""From samples to statistics: the NumPy reference of the Spark app ``attribute_profile``.

Both use the same kernels on the same blocks and add partial sums in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray, frozen
from planning.attributes import cycles, kernels, model
from planning.attributes.cycles import CycleIdentifier
from planning.attributes.statistics import sums
from planning.attributes.statistics.profile import AttributeProfile, Statistics, StreamProfile
from planning.columns import Encoded, encode, length_of, row_keys, take, value_codes
from planning.errors import StatisticsError

if TYPE_CHECKING:
    from planning.attributes.parameters import Parameters
    from planning.families import Definition

MAX_ENTITIES = 4096  # more are represented by those with the smallest keys
NO_CYCLE_WINDOW = 64


@dataclass(frozen=True, slots=True)
class TupleFormat:
    """The attributes of a tuple that are profiled: what each one is, and its bytes on the wire."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]  # number, category or text
    sizes: tuple[int | None, ...]  # None: measured (text)

    @classmethod
    def of(cls, definition: Definition[Parameters]) -> TupleFormat:
        """Return the format that a stream definition describes."""
        kinds, sizes = [], []
        for attribute in definition.attributes:
            kind = attribute.type if attribute.type in ("category", "text") else "number"
            kinds.append(kind)
            few = 0 < len(attribute.values) <= 256
            number = definition.parameters.number_bytes
            default = {"number": number, "category": 1 if few else 2, "text": None}[kind]
            sizes.append(definition.parameters.sizes.get(attribute.name, default))
        return cls(definition.attribute_names, tuple(kinds), tuple(sizes))

    @classmethod
    def observed(cls, columns: Mapping[str, Encoded], parameters: Parameters) -> TupleFormat:
        """Return the format that the columns themselves suggest: numbers, and text as it is."""
        kinds = tuple("number" if column.numeric else "text" for column in columns.values())
        default = {"number": parameters.number_bytes, "text": None}
        sizes = tuple(
            parameters.sizes.get(n, default[k]) for n, k in zip(columns, kinds, strict=True)
        )
        return cls(tuple(columns), kinds, sizes)

    @property
    def numeric(self) -> BoolArray:
        """Which attributes are compared as numbers."""
        return np.array([kind == "number" for kind in self.kinds], dtype=np.bool_)

    def roles(self, cycle: CycleIdentifier, parameters: Parameters) -> IntArray:
        """Return which attributes may be shed, and which are kept and followed."""
        kept = np.isin(self.names, parameters.must_keep) | (~self.numeric & (not cycle.cid))
        role = np.where(kept, kernels.FOLLOWED, kernels.SHEDDABLE)
        named = np.isin(self.names, (*cycle.cid, parameters.stream_attribute or ""))
        free = np.array([size == 0 for size in self.sizes])
        return np.where(named | free, kernels.KEPT, role)

    def measured_sizes(self, rows: int, lengths: Mapping[str, int]) -> tuple[int, ...]:
        """Return bytes per value; text counts its mean length, rounded up.

        ``lengths`` are the bytes of all values of a text attribute together.
        """
        return tuple(
            -(-lengths[name] // max(rows, 1)) if size is None else size
            for name, size in zip(self.names, self.sizes, strict=True)
        )

    def check(self, rows: int, numeric: Mapping[str, bool]) -> None:
        """Refuse samples from which no profile can be made."""
        if rows < 2:
            raise StatisticsError(
                f"samples must hold at least two tuples, got {rows}; collect more before planning"
            )
        for name, kind in zip(self.names, self.kinds, strict=True):
            if kind == "number" and not numeric[name]:
                raise StatisticsError(
                    f"attribute {name} must hold numbers, got text; declare it as a category or "
                    "as text, or repair the samples"
                )


def build(samples: Mapping[str, Any], definition: Definition[Parameters]) -> Statistics:
    """Profile samples that fit in memory, for a stream definition."""
    layout = TupleFormat.of(definition)
    missing = sorted({*layout.names, *definition.parameters.order_by} - set(samples))
    if missing:
        raise StatisticsError(f"samples must hold every attribute, got none of {missing}")
    return _profiled(samples, layout, definition.parameters)


def profile_observed(samples: Mapping[str, Any], parameters: Parameters) -> Statistics:
    """Profile samples without a definition: columns are what they seem to be."""
    columns = {name: encode(column) for name, column in samples.items()}
    return _profiled(samples, TupleFormat.observed(columns, parameters), parameters)


def _profiled(
    samples: Mapping[str, Any], layout: TupleFormat, parameters: Parameters
) -> Statistics:
    columns = in_stream_order(samples, layout.names, parameters.order_by)
    layout.check(length_of(columns), {name: c.numeric for name, c in columns.items()})
    profiles = [
        _profile_stream(name, part, layout, parameters)
        for name, part in split_streams(samples, columns, parameters.stream_attribute)
    ]
    return Statistics(tuple(profiles), parameters.refresh_reports)


def in_stream_order(
    samples: Mapping[str, Any], names: Sequence[str], order_by: Sequence[str]
) -> dict[str, Encoded]:
    """Return the named columns encoded, in stream order.

    With ``order_by`` (attributes, or the time column), equal rows count once, because a repeated
    sample is the same tuple delivered twice, and rows that agree in ``order_by`` stay in the order
    of their arrival. Without it, rows keep their order.
    """
    columns = {name: encode(samples[name]) for name in (*names, *order_by)}
    rows = length_of(columns)
    if order_by:
        fresh = np.unique(row_keys(list(columns.values()), rows), return_index=True)[1]
        columns = take(columns, np.sort(fresh))
        columns = take(columns, np.lexsort([columns[name].values for name in reversed(order_by)]))
    return {name: columns[name] for name in names}


def split_streams(
    samples: Mapping[str, Any], columns: Mapping[str, Encoded], attribute: str | None
) -> Iterator[tuple[str, dict[str, Encoded]]]:
    """Yield (name, columns) per stream of the channel, sorted by name."""
    if attribute is None:
        yield "", dict(columns)
        return
    for name, code in sorted(value_codes(samples[attribute]).items()):
        mine = columns[attribute].values == code
        if mine.any():
            yield name, take(columns, mine)


def _profile_stream(
    name: str, columns: Mapping[str, Encoded], layout: TupleFormat, parameters: Parameters
) -> StreamProfile:
    rows = length_of(columns)
    cycle = CycleIdentifier(parameters.cid)
    if not parameters.cid:
        skip = {*parameters.order_by, parameters.stream_attribute}
        usable = [n for n in layout.names if n not in skip]
        cycle = cycles.detect(columns, usable, parameters.detector)
    keys = row_keys([columns[c] for c in cycle.cid], rows)
    entities = len(np.unique(keys))
    if parameters.cid:  # a CID that the user names cycles over its distinct values
        cycle = CycleIdentifier(parameters.cid, entities)
    matrix = np.stack([columns[n].values for n in layout.names], axis=1)
    blocks = list(_entity_blocks(keys, matrix))
    numeric = layout.numeric
    spreads = [sums.spread(block, numeric, sums.LAGS) for block in blocks]
    scales = sums.combine(spreads, numeric)
    role = layout.roles(cycle, parameters)
    bands = [
        sums.band_sums(block, numeric, role, scales.scale, parameters.refresh_reports)
        for block in blocks
    ]
    window = matrix[-min(rows, window_of(cycle, parameters)) :]
    lengths = {n: 8 * rows if c.length is None else int(c.length.sum()) for n, c in columns.items()}
    return assemble(
        name, rows, entities, cycle, layout, scales, bands,
        sum(len(b) for b in blocks), window, layout.measured_sizes(rows, lengths), parameters,
    )  # fmt: skip


def window_of(cycle: CycleIdentifier, parameters: Parameters) -> int:
    """Return W, the tuples of a capacity window."""
    if parameters.window_tuples is not None:
        return parameters.window_tuples
    return cycle.length if cycle.length > 1 else NO_CYCLE_WINDOW


def _entity_blocks(keys: IntArray, matrix: FloatArray) -> Iterator[FloatArray]:
    """Yield every entity's reports in order, in blocks, by ascending key."""
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order])) + 1
    for rows in np.split(order, edges)[:MAX_ENTITIES]:
        for start in range(0, len(rows), sums.BLOCK_REPORTS):
            yield np.ascontiguousarray(matrix[rows[start : start + sums.BLOCK_REPORTS]])


def assemble(
    name: str,
    tuples: int,
    entities: int,
    cycle: CycleIdentifier,
    layout: TupleFormat,
    scales: sums.Scales,
    bands: Sequence[FloatArray],
    reports: int,
    window: FloatArray,
    sizes: Sequence[int],
    parameters: Parameters,
) -> StreamProfile:
    """Put a stream's profile together from the sums over its entities."""
    total = np.sum(bands, axis=0) / max(reports, 1)
    sent, error = total[:, : len(layout.names)], total[:, len(layout.names) : -1]
    attributes = []
    for j, attribute in enumerate(layout.names):
        if layout.kinds[j] == "number":
            smooth = model.exponential_moving_average(window[:, j], parameters.ema_span)
            deviation = model.standard_deviation(smooth)
        else:
            deviation = model.category_deviation(window[:, j])
        attributes.append(
            AttributeProfile(
                attribute, layout.kinds[j], sizes[j], float(scales.present[j]),
                float(scales.scale[j]), deviation, frozen(scales.lag_error[:, j]),
                frozen(sent[:, j]), frozen(error[:, j]),
            )  # fmt: skip
        )
    return StreamProfile(name, tuples, entities, cycle, tuple(attributes), frozen(total[:, -1]))
