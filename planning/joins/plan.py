"""The join plan: all items by value per comparison, cut where the load says.

``plan.at(r)`` is the setting that spends the fraction r of all comparisons best; ``plan.fill`` cuts
the same list by volumes measured at run time. Densities and frequencies are kept in single
precision so that the JSON and the binary form hold the same plan.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import msgspec
import numpy as np

from planning.arrays import BoolArray, FloatArray, IntArray, frozen, frozen_ints
from planning.errors import ArtifactError, check_between
from planning.joins import selection
from planning.joins.layout import Layout
from planning.joins.model import COMBINES, CONDITIONS, Combine, Condition, ConditionKind, Windows

FORMAT = 1
LARGEST_THRESHOLD = 1 << 16  # the bitmaps count common items up to it
LENGTH = struct.Struct("<IB")  # bytes of the head, bytes per count


class WindowsDocument(msgspec.Struct, forbid_unknown_fields=True):
    """Window sizes w_1 and w_2, basic window size b and a boundary of the grid, in seconds."""

    window_s: tuple[float, float]
    basic_window_s: float
    origin_s: float


class ConditionDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The join condition."""

    kind: str
    threshold: float
    vocabulary: int | None
    single_valued: bool


class LayoutDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of a row: stream and its two values, time, type, items and their weights.

    ``sizes`` cuts every type by the number of items; then ``PlanDocument.types`` are the classes.
    """

    stream: str
    streams: tuple[str, str]
    time: str
    type: str | None
    types: list[str]
    items: list[str]
    weights: list[str]
    sizes: list[int]


class PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A join plan as published; tables are flat, over window, type and basic window."""

    format: int
    windows: WindowsDocument
    condition: ConditionDocument
    types: list[str]
    utilities: list[float]
    combine: str
    type_frequency: list[list[float]]
    rates_per_s: tuple[float, float]
    hits: list[int]
    comparisons: list[int]
    density: list[float]
    order: list[int]
    sample_size: int
    span_s: float
    unit_cost_s: float | None
    valid_for_s: float | None
    monitor_fraction: float
    load: float
    layout: LayoutDocument


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Which comparisons are made right now."""

    load: float  # r
    take: FloatArray  # r_{i,j,z} as [window, type, basic window]
    oldest: BoolArray  # where a part is taken from the old end
    fractions: FloatArray  # r_{i,z}, share of window i that a tuple of type z is compared with
    order: IntArray  # s_i^j per window and type, 0-based


@dataclass(frozen=True, eq=False)
class Plan:
    """One order of (window, type, basic window) for every load.

    Examples
    --------
    >>> from planning.examples import demo_plan
    >>> plan = demo_plan("joins")
    >>> plan.at(0.1).take.shape  # share of 21 basic windows that 3 types are compared with
    (2, 3, 21)
    >>> plan.predicted_quality(0.1) > 0.4  # with a tenth of the comparisons
    True
    >>> Plan.from_bytes(plan.to_bytes()).to_document() == plan.to_document()
    True
    """

    windows: Windows
    condition: Condition
    vocabulary: int | None
    single_valued: bool
    types: tuple[str, ...]
    utilities: FloatArray  # V(z)
    combine: Combine
    type_frequency: FloatArray  # omega_{i,z}
    rates_per_s: tuple[float, float]  # lambda_i in the samples
    hits: IntArray  # [2, Z, n]
    comparisons: IntArray  # [2, Z, n]
    density: FloatArray  # [2, Z, n] utility per comparison
    sample_size: int  # tuples
    span_s: float
    unit_cost_s: float | None  # seconds per comparison, if known
    valid_for_s: float | None
    monitor_fraction: float  # share of the budget spent on comparing with whole windows
    load: float  # the operating point r
    layout: Layout

    @cached_property
    def order(self) -> IntArray:
        """The sorted items: flat indices into [window, type, basic window]."""
        ranked = selection.rank(self.density)
        ranked.flags.writeable = False
        return ranked

    @cached_property
    def volumes(self) -> FloatArray:
        """Share of all comparisons that each item stands for; sums to 1."""
        made = self.comparisons.astype(np.float64)
        total = float(made.sum())
        if total > 0:
            return frozen(made / total)
        spread = self.windows.extents_s[:, None, :] * self.type_frequency[::-1, :, None]
        return frozen(spread / float(np.sort(spread, axis=None).sum()))

    @cached_property
    def oldest(self) -> BoolArray:
        """From which end each basic window is taken in part."""
        return selection.denser_side(self.density)

    @property
    def items(self) -> int:
        """Number of items."""
        return int(self.density.size)

    def fill(self, volumes: FloatArray, budget: float) -> FloatArray:
        """Return the fractions of items that spend ``budget`` best, given their volumes now."""
        return selection.fill(self.order, volumes, budget)

    def at(self, load: float) -> Setting:
        """Return the best setting that makes the fraction ``load`` of all comparisons."""
        r = check_between("load", load, 0.0, 1.0, remedy="pass a fraction, not a percentage")
        # At r = 1 rounding must not leave the last item a hair short.
        take = np.ones(self.density.shape) if r == 1.0 else self.fill(self.volumes, r)
        extents = self.windows.extents_s[:, None, :]
        shares = (take * extents).sum(axis=2) / extents.sum(axis=2)
        ranks = np.argsort(-self.density, axis=2, kind="stable")
        return Setting(r, frozen(take), self.oldest, frozen(shares), frozen_ints(ranks))

    def predicted_quality(self, load: float) -> float:
        """Return the share of the utility of the full join that is kept at ``load``."""
        value = self.density * self.volumes
        total = float(np.sort(value, axis=None).sum())
        if total <= 0:
            return float(load)
        return min(1.0, float(np.sort(value * self.at(load).take, axis=None).sum()) / total)

    def summary(self) -> dict[str, Any]:
        """Return what a person wants to know at a glance."""
        made = int(self.comparisons.sum())
        return {
            "windows_s": list(self.windows.window_s),
            "basic_window_s": self.windows.basic_window_s,
            "condition": self.condition.kind,
            "types": len(self.types),
            "items": self.items,
            "matches_per_comparison": round(int(self.hits.sum()) / made, 8) if made else 0.0,
            "load": self.load,
            "predicted_quality": round(self.predicted_quality(self.load), 6),
        }

    def to_document(self) -> dict[str, Any]:
        """Return the JSON form, as :class:`PlanDocument` describes it."""
        return {
            **self._head(),
            "type_frequency": self.type_frequency.tolist(),
            "hits": self.hits.ravel().tolist(),
            "comparisons": self.comparisons.ravel().tolist(),
            "density": self.density.ravel().tolist(),
            "order": self.order.tolist(),
        }

    def _head(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "windows": {
                "window_s": [float(w) for w in self.windows.window_s],
                "basic_window_s": float(self.windows.basic_window_s),
                "origin_s": float(self.windows.origin_s),
            },
            "condition": {
                "kind": self.condition.kind,
                "threshold": float(self.condition.threshold),
                "vocabulary": self.vocabulary,
                "single_valued": self.single_valued,
            },
            "types": list(self.types),
            "utilities": self.utilities.tolist(),
            "combine": self.combine,
            "rates_per_s": list(self.rates_per_s),
            "sample_size": self.sample_size,
            "span_s": self.span_s,
            "unit_cost_s": self.unit_cost_s,
            "valid_for_s": self.valid_for_s,
            "monitor_fraction": self.monitor_fraction,
            "load": self.load,
            "layout": {
                "stream": self.layout.stream,
                "streams": list(self.layout.streams),
                "time": self.layout.time,
                "type": self.layout.type,
                "types": list(self.layout.types),
                "items": list(self.layout.items),
                "weights": list(self.layout.weights),
                "sizes": list(self.layout.sizes),
            },
        }

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Plan:
        """Read the JSON form back; refuse what does not fit together."""
        try:
            read = msgspec.convert(document, PlanDocument)
        except msgspec.ValidationError as error:
            raise ArtifactError(f"join plan must fit its schema, got: {error}") from None
        windows = Windows(
            read.windows.window_s, read.windows.basic_window_s, read.windows.origin_s
        )
        shape = (2, len(read.types), windows.most)
        _check(read, shape)
        plan = cls(
            windows=windows,
            condition=Condition(cast(ConditionKind, read.condition.kind), read.condition.threshold),
            vocabulary=read.condition.vocabulary,
            single_valued=read.condition.single_valued,
            types=tuple(read.types),
            utilities=frozen(read.utilities),
            combine=cast(Combine, read.combine),
            type_frequency=frozen(read.type_frequency),
            rates_per_s=read.rates_per_s,
            hits=_table(read.hits, shape),
            comparisons=_table(read.comparisons, shape),
            density=frozen(np.reshape(read.density, shape)),
            sample_size=read.sample_size,
            span_s=read.span_s,
            unit_cost_s=read.unit_cost_s,
            valid_for_s=read.valid_for_s,
            monitor_fraction=read.monitor_fraction,
            load=read.load,
            layout=Layout(
                read.layout.stream, read.layout.streams, read.layout.time, read.layout.type,
                tuple(read.layout.types), tuple(read.layout.items), tuple(read.layout.weights),
                tuple(read.layout.sizes),
            ),  # fmt: skip
        )
        if read.order != plan.order.tolist():
            raise ArtifactError(
                "join plan must list its items by falling density; take it from the store again"
            )
        return plan

    def to_bytes(self) -> bytes:
        """Return the compact binary form: a MessagePack head, then packed tables.

        The order of the items is not stored: it follows from the densities.
        """
        head = msgspec.msgpack.encode(self._head())
        largest = max(int(self.hits.max()), int(self.comparisons.max()))
        width = 4 if largest < 2**32 else 8
        return b"".join(
            (
                LENGTH.pack(len(head), width),
                head,
                self.type_frequency.astype("<f4").tobytes(),
                self.density.astype("<f4").tobytes(),
                self.hits.astype(f"<u{width}").tobytes(),
                self.comparisons.astype(f"<u{width}").tobytes(),
            )
        )

    @classmethod
    def from_bytes(cls, payload: bytes) -> Plan:
        """Read the compact binary form back."""
        try:
            length, width = LENGTH.unpack_from(payload)
            if width not in (4, 8):
                raise ValueError(f"counts of {width} bytes")
            head = msgspec.msgpack.decode(payload[LENGTH.size : LENGTH.size + length])
            windows = Windows(tuple(head["windows"]["window_s"]), head["windows"]["basic_window_s"])
            types = len(head["types"])
            size = 2 * types * windows.most
            body = memoryview(payload)[LENGTH.size + length :]
            cuts = np.cumsum([0, 8 * types, 4 * size, width * size, width * size])
            if len(body) != cuts[-1]:
                raise ValueError(f"{len(body)} bytes of tables")
            parts = [body[a:b] for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
            frequency, density = (np.frombuffer(p, "<f4").astype(np.float64) for p in parts[:2])
            hits, comparisons = (
                np.frombuffer(p, f"<u{width}").astype(np.int64) for p in parts[2:]
            )
        except (struct.error, msgspec.MsgspecError, KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"join plan must be whole, got a damaged one: {error}") from None
        return cls.from_document(
            {
                **head,
                "type_frequency": frequency.reshape(2, types).tolist(),
                "hits": hits.tolist(),
                "comparisons": comparisons.tolist(),
                "density": density.tolist(),
                "order": selection.rank(density).tolist(),
            }
        )


def _table(values: list[int], shape: tuple[int, int, int]) -> IntArray:
    return frozen_ints(np.reshape(np.array(values, dtype=np.int64), shape))


def _check(read: PlanDocument, shape: tuple[int, int, int]) -> None:
    size = int(np.prod(shape))
    sizes = {len(read.hits), len(read.comparisons), len(read.density), len(read.order)}
    rows = [len(row) for row in read.type_frequency]
    good = (
        read.format == FORMAT
        and sizes == {size}
        and rows == [shape[1]] * 2
        and len(read.utilities) == shape[1]
        and len(read.layout.types) * (len(read.layout.sizes) + 1) == shape[1]
        and read.combine in COMBINES
        and read.condition.kind in CONDITIONS
        and bool(np.all(np.isfinite(read.density)))
        and (read.condition.vocabulary is None or read.condition.vocabulary >= 0)
        and (read.condition.kind != "overlap" or read.condition.threshold <= LARGEST_THRESHOLD)
    )
    if not good:
        raise ArtifactError(
            f"join plan must have format {FORMAT}, {size} finite values per table and "
            f"{shape[1]} types, got format {read.format} and tables of {sorted(sizes)}; take it "
            "from the store again"
        )
