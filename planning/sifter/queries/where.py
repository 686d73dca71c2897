"""Queries written as SQL ``WHERE`` text, turned into disjoint boxes (Section II-B).

Comparisons of an attribute with a constant, ``BETWEEN`` and ``IN``, joined by ``AND``, ``OR`` and
``NOT``, describe a union of boxes. Sets of disjoint boxes are closed under intersection and
difference, and everything else follows: a OR b is a and (b minus a), NOT a is the whole minus a.
A tuple with NaN in a compared attribute matches nothing, like NULL in SQL.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from planning.definition_errors import Place
from planning.errors import Mistake
from planning.sifter.model import Axis, Space
from planning.sifter.queries import Box

MOST_BOXES = 10_000
MIRRORED = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}


def disjoint_boxes(text: str, space: Space, label: str = "query", at: Place = ()) -> list[Box]:
    """Return the disjoint half-open boxes where ``text`` holds.

    ``label`` and ``at`` say in a :class:`~planning.errors.Mistake` whose text it is, and where in
    the definition it is.

    >>> space = Space((Axis("x", "int", 0, 10), Axis("y", "int", 0, 10)))
    >>> boxes = disjoint_boxes("NOT (x < 4 AND (x > 3 OR y < 5))", space)
    >>> sum(int(np.prod(high - low)) for low, high in boxes)
    80
    """
    reader = _Condition(space, f"{label}: where", text, at)
    try:
        tree = sqlglot.condition(text)
    except SqlglotError as error:
        got = f"{text!r} ({error})"
        raise Mistake(reader.field, "a SQL condition", got, at=at) from None
    return reader.boxes(tree)


class _Condition:
    """Reads a parsed condition from the leaves up."""

    def __init__(self, space: Space, field: str, text: str, at: Place) -> None:
        self.space, self.field, self.text, self.at = space, field, text, at
        self.axis_of = {axis.name: i for i, axis in enumerate(space.axes)}

    def boxes(self, node: Any) -> list[Box]:
        if isinstance(node, exp.Paren):
            return self.boxes(node.this)
        if isinstance(node, exp.And):
            return self._checked(intersection(self.boxes(node.this), self.boxes(node.expression)))
        if isinstance(node, exp.Or):
            left = self.boxes(node.this)
            return self._checked(left + difference(self.boxes(node.expression), left))
        if isinstance(node, exp.Not):
            return self._checked(difference(self._whole(), self.boxes(node.this)))
        if isinstance(node, exp.Boolean):
            return self._whole() if node.this else []
        if isinstance(node, exp.Between):
            low, high = node.args["low"], node.args["high"]
            return intersection(
                self._compared(exp.GTE, node.this, low), self._compared(exp.LTE, node.this, high)
            )
        if isinstance(node, exp.In):
            union: list[Box] = []
            for constant in node.expressions:
                union += difference(self._compared(exp.EQ, node.this, constant), union)
            return union
        if isinstance(node, exp.NEQ):
            return difference(self._whole(), self._compared(exp.EQ, node.this, node.expression))
        if isinstance(node, (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
            return self._compared(type(node), node.this, node.expression)
        raise self._error("comparisons joined by AND, OR and NOT", node)

    def _compared(self, operator: Any, left: Any, right: Any) -> list[Box]:
        if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
            left, right = right, left
            operator = MIRRORED.get(operator, operator)
        if not isinstance(left, exp.Column) or left.name not in self.axis_of:
            raise self._error(f"an attribute of {', '.join(self.axis_of)}", left)
        index = self.axis_of[left.name]
        axis = self.space.axes[index]
        value = self._constant(axis, operator, right)
        first, last = _interval(axis, operator, value)
        low, high = self.space.low, self.space.high
        low[index], high[index] = max(low[index], first), min(high[index], last)
        return [(low, high)] if low[index] < high[index] else []

    def _constant(self, axis: Axis, operator: Any, node: Any) -> float:
        negative = isinstance(node, exp.Neg)
        node = node.this if negative else node
        if not isinstance(node, exp.Literal):
            raise self._error("a constant", node)
        if axis.kind == "category":
            if operator is not exp.EQ:
                raise self._error(f"=, <>, IN on category {axis.name}", node)
            if node.this not in axis.values:
                raise self._error(f"one of {', '.join(axis.values)} for {axis.name}", node)
            return float(axis.values.index(node.this))
        try:
            number = float(node.this)
        except ValueError:
            raise self._error(f"a number for {axis.name}", node) from None
        return -number if negative else number

    def _whole(self) -> list[Box]:
        return [(self.space.low, self.space.high)]

    def _checked(self, boxes: list[Box]) -> list[Box]:
        if len(boxes) > MOST_BOXES:
            raise self._error(f"at most {MOST_BOXES} boxes", self.text)
        return boxes

    def _error(self, allowed: str, node: Any) -> Mistake:
        given = node.sql() if isinstance(node, exp.Expression) else str(node)
        return Mistake(self.field, f"a condition with {allowed}", repr(given), at=self.at)


def _interval(axis: Axis, operator: Any, value: float) -> tuple[float, float]:
    """Return the half-open interval where ``attribute operator value`` holds."""
    at = value if axis.kind == "float" else float(np.ceil(value))
    after = axis.edge_after(value)
    if operator is exp.EQ:
        # A fraction equals no whole number.
        return (value, after) if at == value else (0.0, 0.0)
    if operator is exp.LT:
        return -np.inf, at
    if operator is exp.LTE:
        return -np.inf, after
    return (after if operator is exp.GT else at), np.inf


def intersection(one: list[Box], two: list[Box]) -> list[Box]:
    """Return the boxes common to two sets of disjoint boxes."""
    common = []
    for low, high in one:
        for other_low, other_high in two:
            corner, end = np.maximum(low, other_low), np.minimum(high, other_high)
            if bool((corner < end).all()):
                common.append((corner, end))
    return common


def difference(boxes: list[Box], removed: list[Box]) -> list[Box]:
    """Return the disjoint boxes that remain of ``boxes`` without ``removed``."""
    for cut in removed:
        boxes = [piece for box in boxes for piece in _without(box, cut)]
    return boxes


def _without(box: Box, cut: Box) -> list[Box]:
    low, high = box
    if not intersection([box], [cut]):
        return [box]
    pieces = []
    low, high = low.copy(), high.copy()
    for k in range(len(low)):
        if low[k] < cut[0][k]:
            end = high.copy()
            end[k] = cut[0][k]
            pieces.append((low.copy(), end))
            low[k] = cut[0][k]
        if cut[1][k] < high[k]:
            corner = low.copy()
            corner[k] = cut[1][k]
            pieces.append((corner, high.copy()))
            high[k] = cut[1][k]
    return pieces
