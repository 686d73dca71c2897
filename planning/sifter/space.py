"""The data space D: attributes, their kinds and bounds, and tuples as points in it.

Every axis is half-open, so that membership in a box is ``low <= x < high`` on all of them: a float
domain [a, b] ends at the float after b, an int domain at b + 1, and a category is its code, one
unit wide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from planning.arrays import FloatArray
from planning.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Axis:
    """One attribute as an axis of the data space: [low, high), high exclusive."""

    name: str
    kind: str
    low: float
    high: float
    values: tuple[str, ...] = ()

    def edge_after(self, value: float) -> float:
        """Return the first coordinate after ``value``: the open end of a range closed at it.

        >>> Axis("n", "int", 0, 11).edge_after(3)
        4.0
        """
        if self.kind == "float":
            return float(np.nextafter(value, np.inf))
        return float(np.floor(value) + 1)


@dataclass(frozen=True, slots=True)
class Space:
    """The data space of a stream.

    >>> space = Space((Axis("price", "float", 0, 100), Axis("side", "category", 0, 2, ("b", "s"))))
    >>> space.matrix({"price": [3.5, None], "side": ["s", "x"]}).tolist()
    [[3.5, 1.0], [nan, nan]]
    """

    axes: tuple[Axis, ...]
    codes: tuple[dict[str, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        codes = tuple({text: code for code, text in enumerate(a.values)} for a in self.axes)
        object.__setattr__(self, "codes", codes)

    @classmethod
    def of(cls, definition: Any) -> Space:
        """Return the space that a stream definition's attributes span."""
        return cls(tuple(_axis(attribute) for attribute in definition.attributes))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes, axis by axis."""
        return tuple(axis.name for axis in self.axes)

    @property
    def low(self) -> FloatArray:
        """Lower bounds, one per axis."""
        return np.array([axis.low for axis in self.axes])

    @property
    def high(self) -> FloatArray:
        """Upper bounds (exclusive), one per axis."""
        return np.array([axis.high for axis in self.axes])

    def matrix(self, columns: Mapping[str, Any] | Any) -> FloatArray:
        """Return tuples as an (n, d) array of points; what cannot be read is NaN.

        A mapping gives one array per attribute; an array is taken as points already.
        """
        if not isinstance(columns, Mapping):
            points = np.asarray(columns, dtype=np.float64)
            if points.ndim != 2 or points.shape[1] != len(self.axes):
                raise InvalidInput(
                    f"points must have shape (n, {len(self.axes)}), got {points.shape}; "
                    f"give one column for each of {', '.join(self.names)}"
                )
            return points
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise InvalidInput(
                f"columns must hold {', '.join(self.names)}, got none for {', '.join(missing)}"
            )
        read = [self.coordinates(i, columns[axis.name]) for i, axis in enumerate(self.axes)]
        return np.column_stack(read) if read[0].size else np.empty((0, len(read)))

    def coordinates(self, axis: int, values: Sequence[Any] | Any) -> FloatArray:
        """Return one attribute's values as coordinates; categories become their codes."""
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array.astype(np.float64, copy=False)
        if self.axes[axis].kind == "category":
            code = self.codes[axis]
            found = [code.get(text) if isinstance(text, str) else text for text in array.tolist()]
            return np.array([np.nan if c is None else c for c in found], dtype=np.float64)
        return np.array([_number(value) for value in array.tolist()], dtype=np.float64)


def _axis(attribute: Any) -> Axis:
    low, high = attribute.bounds
    if attribute.type == "int":
        low, high = float(np.ceil(low)), float(np.floor(high)) + 1.0
    elif attribute.type == "float":
        high = float(np.nextafter(high, np.inf))
    return Axis(attribute.name, attribute.type, float(low), float(high), tuple(attribute.values))


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
