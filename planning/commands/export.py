"""``headgate export``: a sifter plan at a load as an expression that databases evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Annotated

import numpy as np
import typer

from planning.commands.options import DEFAULT_HOME, HomeOption, StreamArgument
from planning.commands.plans import VersionOption
from planning.errors import InvalidInput
from planning.home import Home
from planning.sifter.model import LEAF
from planning.sifter.plan import Plan

KEY_FORMS = {
    **dict.fromkeys(("boolean", "tinyint", "smallint", "int"), "cast({} as bigint)"),
    **dict.fromkeys(("bigint", "string", "binary", "timestamp", "timestamp_ntz"), "{}"),
}
"""What Spark's xxhash64 takes of a key column, by its type."""


class Target(StrEnum):
    """Whose quotes are used: Spark's SQL, or DuckDB's, which has no keyed hash of its own."""

    sql = "sql"
    duckdb = "duckdb"


class Expressions:
    """A plan as SQL; columns of categories are texts, all others are numbers.

    >>> from planning.examples import demo_plan
    >>> Expressions(demo_plan("sifter")).keep(0.5, "draw").splitlines()[-1]
    'end)'
    """

    def __init__(self, plan: Plan, target: Target = Target.sql) -> None:
        self.plan, self.target = plan, target
        self._names = [self.quoted(axis.name) for axis in plan.space.axes]

    def quoted(self, name: str) -> str:
        """Return the name of a column in quotes."""
        mark = "`" if self.target == Target.sql else '"'
        return mark + name.replace(mark, 2 * mark) + mark

    def region(self) -> str:
        """Return the number of an item's region; null for one in no region."""
        return self._case("null", range(self.plan.regions))

    def keep(self, load: float, draw: str) -> str:
        """Return whether an item is kept: pinned, or with a draw that its region's step spares."""
        *steps, nowhere = self.plan.at(load).steps.tolist()
        axes = range(len(self._names))
        pins = zip(self.plan.pins.low.tolist(), self.plan.pins.high.tolist(), strict=True)
        pinned = [
            " and ".join(
                self._within(*axis, ordered=False) for axis in zip(axes, *box, strict=True)
            )
            for box in pins
        ]
        kept = f"{draw} >= {self._case(nowhere, steps)}"
        return "(" + "\nor ".join([*(f"coalesce({one}, false)" for one in pinned), kept]) + ")"

    def draw(self, keys: Sequence[str], salt: int | None) -> str:
        """Return the draw of a key, its columns as NAME:TYPE.

        >>> from planning.examples import demo_plan
        >>> Expressions(demo_plan("sifter")).draw(["user:string", "shop:int"], salt=7)
        'shiftrightunsigned(xxhash64(7L, `user`, cast(`shop` as bigint)), 32)'
        """
        forms = [] if salt is None else [f"{salt}L"]
        for key in keys:
            name, _, kind = key.rpartition(":")
            if not name or kind not in KEY_FORMS:
                raise InvalidInput(
                    f"key must be NAME:TYPE with one of {', '.join(KEY_FORMS)}, got {key!r}; for "
                    "others pass --draw, built on what spark_apps.keys.key_sql returns"
                )
            forms.append(KEY_FORMS[kind].format(self.quoted(name)))
        return f"shiftrightunsigned(xxhash64({', '.join(forms)}), 32)"

    def _case(self, nowhere: object, values: Sequence[object]) -> str:
        missing = [self._missing(k) for k in range(len(self._names))]
        tree = self._tree(0, values) if self.plan.regions > 1 else f"else {values[0]}"
        return f"case\nwhen {' or '.join(missing)} then {nowhere}\n{tree}\nend"

    def _tree(self, node: int, values: Sequence[object]) -> str:
        """Return a subtree as branches of a case; the smaller half of a cut is a case in itself.

        So no more cases lie inside one another than the regions can be halved.
        """
        dimension, cut, right, leaf = self.plan.partition.tree
        branches = []
        while (axis := int(dimension[node])) != LEAF:
            ends = -np.inf, float(cut[node]), np.inf
            halves = [(node + 1, *ends[:2]), (int(right[node]), *ends[1:])]
            (inner, low, high), (node, _, _) = sorted(halves, key=lambda half: self._sizes[half[0]])
            small = f"case {self._tree(inner, values)} end"
            small = str(values[leaf[inner]]) if dimension[inner] == LEAF else small
            branches.append(f"when {self._within(axis, low, high)} then {small}")
        return "\n".join([*branches, f"else {values[leaf[node]]}"])

    @cached_property
    def _sizes(self) -> list[int]:
        """How many nodes the subtree at each node has."""
        dimension, _, right, _ = self.plan.partition.tree
        sizes = [1] * len(dimension)
        for node in reversed(range(len(dimension))):
            if dimension[node] != LEAF:
                sizes[node] += sizes[node + 1] + sizes[right[node]]
        return sizes

    def _missing(self, axis: int) -> str:
        name, given = self._names[axis], self.plan.space.axes[axis]
        if given.kind == "category":
            return f"{name} is null or not {self._among(axis, given.values)}"
        return f"{name} is null or isnan(cast({name} as double))"

    def _within(self, axis: int, low: float, high: float, *, ordered: bool = True) -> str:
        """Return whether low <= x < high on an axis; ``ordered``: of positions, not of codes."""
        names = self.plan.space.axes[axis].values
        if self.plan.space.axes[axis].kind != "category":
            terms = [f"{self._names[axis]} >= {_double(low)}"] if low > -np.inf else []
            terms += [f"{self._names[axis]} < {_double(high)}"] if high < np.inf else []
            return " and ".join(terms) or "true"
        at = np.arange(len(names), dtype=np.float64)
        at = self.plan.partition.arranged_axis(axis, at) if ordered else at
        inside = (low <= at) & (at < high)
        return self._among(axis, [name for name, is_in in zip(names, inside, strict=True) if is_in])

    def _among(self, axis: int, values: Sequence[str]) -> str:
        listed = ", ".join(map(self._text, values))
        return f"{self._names[axis]} in ({listed})" if values else "false"

    def _text(self, value: str) -> str:
        if self.target == Target.sql:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"


def _double(value: float) -> str:
    """Return a number that both read as a double."""
    return text if "e" in (text := repr(value)) else f"{text}e0"


def export(
    stream: StreamArgument,
    to: Annotated[Target, typer.Option("--to", help="sql is Spark's; duckdb has no keyed hash.")],
    at: Annotated[float | None, typer.Option("--at", help="Throttle fraction z.")] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="Key column as NAME:TYPE; may be repeated.")
    ] = None,
    salt: Annotated[int | None, typer.Option("--salt", help="Of the key.")] = None,
    draw: Annotated[
        str | None, typer.Option("--draw", help="Expression of the draw, in place of --key.")
    ] = None,
    version: VersionOption = None,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Print which items a sifter plan keeps at a load; without --at, their region.

    Example: `headgate export ticks --to sql --at 0.5 --key id:bigint`
    """
    plan = Home.at(home).store().load(stream, version).plan
    if not isinstance(plan, Plan):
        raise InvalidInput(f"stream must be of the family sifter to be exported, got {stream}")
    made = Expressions(plan, to)
    if at is None:
        typer.echo(made.region())
        return
    if draw is None and (not key or to == Target.duckdb):
        raise InvalidInput("export --at needs --draw, or for Spark --key; got neither")
    typer.echo(made.keep(at, draw or made.draw(key or (), salt)))
