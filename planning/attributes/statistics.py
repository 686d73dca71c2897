"""The profile of a stream: sizes, cycle, lag errors and dead-band behaviour per attribute.

``build`` is the NumPy reference of the Spark app ``attribute_profile``; both use the same kernels
on the same blocks and add partial sums in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray, finite_array, frozen
from planning.attributes import cycles, model, profile
from planning.attributes.cycles import CycleIdentifier, Replicated
from planning.attributes.encoding import Encoded, encode, length_of, row_keys, stream_names
from planning.errors import StatisticsError

MAX_ENTITIES = 4096  # more are represented by those with the smallest keys
NO_CYCLE_WINDOW = 64
CURVES = (
    ("lag_error", len(profile.LAGS)),
    ("band_rate", len(profile.BANDS)),
    ("band_error", len(profile.BANDS)),
)
EMPTY: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class AttributeProfile:
    """What is known of one attribute in one stream."""

    name: str
    kind: str  # number, category or text
    size: int  # bytes charged per value
    present: float  # fraction of reports that are not null
    scale: float  # unit of distance, see planning.attributes.profile
    deviation: float  # SD of the smoothed last window (paper IV-C2)
    lag_error: FloatArray  # D per lag
    band_rate: FloatArray  # fraction of reports sent per dead band
    band_error: FloatArray

    def hold_error(self, period: int) -> float:
        """Return H(period), the loss of sending every ``period``-th report (0: never)."""
        return profile.hold_error(profile.LAGS, self.lag_error, period)

    @property
    def score(self) -> float:
        """Information score: what holding one report longer loses, per byte."""
        return self.hold_error(2) / self.size if self.size else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class StreamProfile:
    """One stream of the channel."""

    name: str
    tuples: int
    entities: int
    cycle: CycleIdentifier
    attributes: tuple[AttributeProfile, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The profiles of all streams that share the channel; usually one.

    >>> from planning.attributes.parameters import Parameters
    >>> i = np.arange(600)
    >>> samples = {"station": i % 6, "level": i // 60, "load": (i * 7919) % 997}
    >>> (stream,) = profile_observed(samples, Parameters()).streams
    >>> stream.cycle.cid, [(a.name, round(a.score, 4)) for a in stream.attributes]
    (('station',), [('station', 0.0), ('level', 0.0003), ('load', 0.0832)])
    """

    streams: tuple[StreamProfile, ...]
    refresh_reports: int  # dead bands were measured with this refresh

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "refresh_reports": self.refresh_reports,
            "streams": [
                {
                    "name": s.name,
                    "tuples": s.tuples,
                    "entities": s.entities,
                    "cycle": {
                        "cid": list(s.cycle.cid),
                        "length": s.cycle.length,
                        "replicated": [
                            [r.name, r.length, r.share, r.identifies] for r in s.cycle.replicated
                        ],
                        "groups": [list(g) for g in s.cycle.groups],
                    },
                    "attributes": [
                        {
                            "name": a.name, "kind": a.kind, "size": a.size, "present": a.present,
                            "scale": a.scale, "deviation": a.deviation,
                            "lag_error": a.lag_error.tolist(), "band_rate": a.band_rate.tolist(),
                            "band_error": a.band_error.tolist(),
                        }
                        for a in s.attributes
                    ],
                }
                for s in self.streams
            ],
        }  # fmt: skip

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Statistics:
        """Read the JSON form back."""
        return cls(
            tuple(
                StreamProfile(
                    s["name"],
                    int(s["tuples"]),
                    int(s["entities"]),
                    CycleIdentifier(
                        tuple(s["cycle"]["cid"]),
                        int(s["cycle"]["length"]),
                        tuple(Replicated(*r) for r in s["cycle"]["replicated"]),
                        tuple(tuple(g) for g in s["cycle"]["groups"]),
                    ),
                    tuple(
                        AttributeProfile(
                            a["name"], a["kind"], int(a["size"]), float(a["present"]),
                            float(a["scale"]), float(a["deviation"]),
                            *(finite_array(f"{curve} of {a['name']}", a[curve], (points,))
                              for curve, points in CURVES),
                        )  # fmt: skip
                        for a in s["attributes"]
                    ),
                )
                for s in document["streams"]
            ),
            int(document["refresh_reports"]),
        )


@dataclass(frozen=True, slots=True)
class Schema:
    """The attributes that are profiled, with what the definition says about them."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    sizes: tuple[int | None, ...]  # None: measured (text)

    @classmethod
    def of(cls, definition: Any) -> Schema:
        """Return the schema of a stream definition."""
        kinds, sizes = [], []
        for attribute in definition.attributes:
            category = attribute.type == "category"
            kinds.append("category" if category else "number")
            default = definition.parameters.number_bytes
            if category:
                default = 1 if len(attribute.values) <= 256 else 2
            sizes.append(definition.parameters.sizes.get(attribute.name, default))
        return cls(definition.attribute_names, tuple(kinds), tuple(sizes))

    @classmethod
    def observed(
        cls, columns: Mapping[str, Encoded], number_bytes: int = 8, sizes: Mapping[str, int] = EMPTY
    ) -> Schema:
        """Return the schema that columns have by themselves: numbers, and text as it is."""
        kinds = tuple("number" if column.numeric else "text" for column in columns.values())
        default = {"number": number_bytes, "text": None}
        found = [sizes.get(n, default[k]) for n, k in zip(columns, kinds, strict=True)]
        return cls(tuple(columns), kinds, tuple(found))

    @property
    def numeric(self) -> BoolArray:
        """Which attributes are compared as numbers."""
        return np.array([kind == "number" for kind in self.kinds], dtype=np.bool_)


def build(samples: Mapping[str, Any], definition: Any) -> Statistics:
    """Profile samples that fit in memory, for a stream definition."""
    schema = Schema.of(definition)
    missing = sorted({*schema.names, *definition.parameters.order_by} - set(samples))
    if missing:
        raise StatisticsError(f"samples must hold every attribute, got none of {missing}")
    return profile_samples(samples, schema, definition.parameters)


def profile_observed(samples: Mapping[str, Any], parameters: Any) -> Statistics:
    """Profile samples without a definition: columns are what they seem to be."""
    columns = {name: encode(column) for name, column in samples.items()}
    schema = Schema.observed(columns, parameters.number_bytes, parameters.sizes)
    return profile_samples(samples, schema, parameters)


def profile_samples(samples: Mapping[str, Any], schema: Schema, parameters: Any) -> Statistics:
    """Profile samples with a schema of their own."""
    columns = in_stream_order(samples, schema.names, parameters.order_by)
    check_samples(length_of(columns), {n: c.numeric for n, c in columns.items()}, schema)
    profiles = [
        _profile_stream(name, part, schema, parameters)
        for name, part in split_streams(samples, columns, parameters.stream_attribute)
    ]
    return Statistics(tuple(profiles), parameters.refresh_reports)


def check_samples(rows: int, numeric: Mapping[str, bool], schema: Schema) -> None:
    """Refuse samples from which no profile can be made."""
    if rows < 2:
        raise StatisticsError(
            f"samples must hold at least two tuples, got {rows}; collect more before planning"
        )
    for name, kind in zip(schema.names, schema.kinds, strict=True):
        if kind == "number" and not numeric[name]:
            raise StatisticsError(
                f"attribute {name} must hold numbers, got text; declare it as a category or repair "
                "the samples"
            )


def in_stream_order(
    samples: Mapping[str, Any], names: Sequence[str], order_by: Sequence[str]
) -> dict[str, Encoded]:
    """Return the named columns encoded, in stream order.

    With ``order_by`` (attributes, or the time column), equal rows count once, because a repeated
    sample is the same tuple delivered twice, and rows that agree in ``order_by`` follow their
    content, so that the order of arrival does not matter. Without, rows stay as they came.
    """
    columns = {name: encode(samples[name]) for name in (*names, *order_by)}
    rows = length_of(columns)
    if order_by:
        content = row_keys(list(columns.values()), rows)
        keys = (content, *(columns[name].values for name in reversed(order_by)))
        order = np.lexsort(keys).astype(np.int64)
        fresh = np.ones(rows, dtype=np.bool_)
        fresh[1:] = content[order][1:] != content[order][:-1]
        columns = take(columns, order[fresh])
    return {name: columns[name] for name in names}


def take(columns: Mapping[str, Encoded], index: IntArray | BoolArray) -> dict[str, Encoded]:
    """Return the chosen rows of every column."""
    return {
        name: Encoded(c.values[index], c.numeric, None if c.length is None else c.length[index])
        for name, c in columns.items()
    }


def split_streams(
    samples: Mapping[str, Any], columns: Mapping[str, Encoded], attribute: str | None
) -> Iterator[tuple[str, dict[str, Encoded]]]:
    """Yield (name, columns) per stream of the channel, sorted by name."""
    if attribute is None:
        yield "", dict(columns)
        return
    names = stream_names(samples[attribute])
    for name in sorted(names):
        mine = columns[attribute].values == names[name]
        if mine.any():
            yield name, take(columns, mine)


def _profile_stream(
    name: str, columns: Mapping[str, Encoded], schema: Schema, parameters: Any
) -> StreamProfile:
    rows = length_of(columns)
    skip = {*parameters.order_by, parameters.stream_attribute}
    if parameters.cid:
        found = given_cycle(parameters.cid, columns)
    else:
        usable = [n for n in schema.names if n not in skip]
        found = cycles.detect(columns, usable, parameters.detector)
    keys = row_keys([columns[c] for c in found.cid], rows)
    matrix = np.stack([columns[n].values for n in schema.names], axis=1)
    blocks = list(entity_blocks(keys, matrix))
    numeric = schema.numeric
    spreads = [profile.spread(block, numeric, profile.LAGS) for block in blocks]
    scales = profile.combine(spreads, numeric)
    sums = [band_sums(block, numeric, scales.scale, parameters.refresh_reports) for block in blocks]
    window = matrix[-min(rows, window_of(found, parameters)) :]
    return assemble(
        name, rows, len(np.unique(keys)), found, schema, scales, sums,
        sum(len(b) for b in blocks), window, sizes_of(schema, columns), parameters,
    )  # fmt: skip


def given_cycle(cid: Sequence[str], columns: Mapping[str, Encoded]) -> CycleIdentifier:
    """Return the cycle of a CID that the user names: as long as it has distinct values."""
    rows = length_of(columns)
    entities = len(np.unique(row_keys([columns[c] for c in cid], rows)))
    return CycleIdentifier(tuple(cid), entities)


def window_of(found: CycleIdentifier, parameters: Any) -> int:
    """Return W, the tuples of a capacity window."""
    if parameters.window_tuples is not None:
        return int(parameters.window_tuples)
    return found.length if found.length > 1 else NO_CYCLE_WINDOW


def sizes_of(schema: Schema, columns: Mapping[str, Encoded]) -> tuple[int, ...]:
    """Return bytes per value; text counts its mean length, rounded up."""
    sizes = []
    for name, size in zip(schema.names, schema.sizes, strict=True):
        length = columns[name].length
        if size is None:
            size = 8 if length is None or not len(length) else int(np.ceil(length.mean()))
        sizes.append(int(size))
    return tuple(sizes)


def entity_blocks(keys: IntArray, matrix: FloatArray) -> Iterator[FloatArray]:
    """Yield every entity's reports in order, in blocks, by ascending key."""
    order = np.argsort(keys, kind="stable")
    edges = np.flatnonzero(np.diff(keys[order])) + 1
    for rows in np.split(order, edges)[:MAX_ENTITIES]:
        for start in range(0, len(rows), profile.BLOCK_REPORTS):
            yield np.ascontiguousarray(matrix[rows[start : start + profile.BLOCK_REPORTS]])


def band_sums(
    block: FloatArray, numeric: BoolArray, scale: FloatArray, refresh: int
) -> tuple[FloatArray, FloatArray]:
    """Return (values sent, error) per dead band and attribute of one block."""
    sent, error = profile.dead_band_sums(block, numeric, scale, np.array(profile.BANDS), refresh)
    return sent, error


def assemble(
    name: str,
    tuples: int,
    entities: int,
    found: CycleIdentifier,
    schema: Schema,
    scales: profile.Scales,
    sums: Sequence[tuple[FloatArray, FloatArray]],
    reports: int,
    window: FloatArray,
    sizes: Sequence[int],
    parameters: Any,
) -> StreamProfile:
    """Put a stream's profile together from the sums over its entities."""
    sent = np.sum([s for s, _ in sums], axis=0) / max(reports, 1)
    error = np.sum([e for _, e in sums], axis=0) / max(reports, 1)
    attributes = []
    for j, attribute in enumerate(schema.names):
        number = schema.kinds[j] == "number"
        if number:
            smooth = model.exponential_moving_average(window[:, j], parameters.ema_span)
            deviation = model.standard_deviation(smooth)
        else:
            deviation = model.category_deviation(window[:, j])
        attributes.append(
            AttributeProfile(
                attribute, schema.kinds[j], sizes[j], float(scales.present[j]),
                float(scales.scale[j]), deviation, frozen(scales.lag_error[:, j]),
                frozen(sent[:, j]), frozen(error[:, j]),
            )  # fmt: skip
        )
    return StreamProfile(name, tuples, entities, found, tuple(attributes))
