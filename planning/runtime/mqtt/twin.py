"""What a receiver holds of a node. The node has the same, because both apply the same messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from planning.errors import InvalidInput
from planning.runtime.mqtt import wire
from planning.runtime.mqtt.wire import Birth

Entity = tuple[Any, ...]


class Value(NamedTuple):
    """A value and when it was measured."""

    value: Any
    time_s: float


class Twin:
    """The last reported values of a node's entities.

    Parameters
    ----------
    columns
        Names of the values.
    whole
        Whether every report has all of them.

    Examples
    --------
    >>> source = Twin(("level", "flow"))
    >>> sink = Twin.of(source.birth(session=1, seq=0))
    >>> sink.apply(source.report(("pump",), 10.0, {0: 2.5, 1: 7}))
    >>> sink.apply(source.report(("pump",), 20.0, {1: 8}))
    >>> sink.rows() == source.rows()
    True
    >>> sink.rows()[("pump",)]
    {'level': Value(value=2.5, time_s=10.0), 'flow': Value(value=8, time_s=20.0)}
    """

    def __init__(self, columns: tuple[str, ...], *, whole: bool = False) -> None:
        self.columns = columns
        self.whole = whole
        self.clock_s = 0.0
        self._places: dict[Entity, int] = {}
        self._values: list[list[Any]] = []
        self._times: list[list[float | None]] = []

    @classmethod
    def of(cls, birth: Birth) -> Twin:
        """Return what a birth says; one that contradicts itself is an error."""
        twin = cls(birth.columns, whole=birth.whole)
        twin.clock_s = birth.clock_s
        twin._places = {_key(entity): i for i, entity in enumerate(birth.entities)}
        twin._values = [list(row) for row in birth.values]
        twin._times = [list(row) for row in birth.times_s]
        rows = (*twin._values, *twin._times)
        if not len(twin._places) == len(twin._values) == len(twin._times) or any(
            len(row) != len(twin.columns) for row in rows
        ):
            raise InvalidInput("a birth must have a value and a time for every entity and column")
        return twin

    def birth(self, session: int, seq: int) -> Birth:
        """Return all of it."""
        return Birth(
            session, seq, self.columns, self.whole, self.clock_s, list(self._places), self._values,
            self._times,
        )  # fmt: skip

    def rows(self) -> dict[Entity, dict[str, Value]]:
        """Return what is known of every entity; what was never reported is absent."""
        return {
            entity: {
                name: Value(value, time)
                for name, value, time in zip(
                    self.columns, self._values[place], self._times[place], strict=True
                )
                if time is not None
            }
            for entity, place in self._places.items()
        }

    def renamed(self, columns: tuple[str, ...]) -> Twin:
        """Return the same for other columns; values go by name."""
        twin = Twin(columns, whole=self.whole)
        twin.clock_s, twin._places = self.clock_s, dict(self._places)
        where = [self.columns.index(name) if name in self.columns else -1 for name in columns]
        twin._values = [[row[j] if j >= 0 else None for j in where] for row in self._values]
        twin._times = [[row[j] if j >= 0 else None for j in where] for row in self._times]
        return twin

    def report(self, entity: Entity, time_s: float, values: Mapping[int, Any]) -> bytes:
        """Take over values by place of their column; return the bytes that say so."""
        out = bytearray()
        place = self._places.get(entity, len(self._places))
        wire.put_number(out, place)
        if place == len(self._places):
            wire.put(out, list(entity))
        wire.put(out, round(time_s - self.clock_s, 3))
        if not self.whole:
            bits = sum(1 << j for j in values)
            out += bits.to_bytes((len(self.columns) + 7) // 8, "little")
        for j in sorted(values):
            wire.put(out, values[j])
        self.apply(bytes(out))
        return bytes(out)

    def apply(self, data: bytes) -> None:
        """Take over the reports of a message; one that is damaged is an error."""
        at = 0
        while at < len(data):
            at = self._apply(data, at)

    def _apply(self, data: bytes, at: int) -> int:
        place, at = wire.take_number(data, at)
        if place > len(self._values):
            raise ValueError(f"entity {place} was never named")
        if place == len(self._values):
            entity, at = wire.take(data, at)
            self._places[_key(entity)] = place
            self._values.append([None] * len(self.columns))
            self._times.append([None] * len(self.columns))
        passed, at = wire.take(data, at)
        self.clock_s = round(self.clock_s + passed, 3)
        bits = (1 << len(self.columns)) - 1
        if not self.whole:
            width = (len(self.columns) + 7) // 8
            bits, at = int.from_bytes(data[at : at + width], "little"), at + width
            if at > len(data) or bits >> len(self.columns):
                raise ValueError("a report must say which values it has")
        for j in range(len(self.columns)):
            if bits >> j & 1:
                self._values[place][j], at = wire.take(data, at)
                self._times[place][j] = self.clock_s
        return at


def _key(entity: Any) -> Entity:
    if not isinstance(entity, list | tuple):
        raise msgspec.ValidationError(f"an entity must be a list of values, got {entity!r}")
    return tuple(entity)
