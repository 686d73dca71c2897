"""A sifter plan as SQL decides as the keyed shedder: on Spark, and its regions on DuckDB."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from planning import batches, keys
from planning.artifacts import SigningKey
from planning.artifacts.codec import decode
from planning.commands import app
from planning.commands.export import Expressions, Target
from planning.errors import InvalidInput
from planning.examples import demo_plan
from planning.home import Home
from planning.sifter.plan import Plan
from planning.sifter.shedder import Shedder

LOADS = (0.0, 0.2, 0.5, 0.83, 1.0)
TYPES = {"float": "double", "int": "double", "category": "string"}
ODD = 'it\'s\\ "odd"'


class Case:
    """A plan of the kit with the kit's rows, and keys."""

    def __init__(self, made: dict[str, Any]) -> None:
        self.name, self.columns = made["name"], made["columns"]
        self.plan: Plan = decode(base64.b64decode(made["json"]), "json")[1]  # type: ignore[assignment]
        self.rows = len(made["draws"])
        self.keys: dict[str, list[Any]] = {
            "user": [None if i % 50 == 0 else f"user-{i % 170}" for i in range(self.rows)],
            "shop": [i * 7919 % 23 for i in range(self.rows)],
        }
        self.salt = 7 if self.rows % 2 else None

    def decided(self, load: float) -> list[bool]:
        draws = keys.draws_of(list(self.keys.values()), self.salt)
        shedder = Shedder(self.plan, load)
        return shedder.decide(batches.read(self.columns, shedder.schema), draws=draws).keep.tolist()

    def regions(self) -> list[int | None]:
        found = self.plan.partition.lookup(self.plan.space.matrix(self.columns))
        return [None if region < 0 else region for region in found.tolist()]


@pytest.fixture(scope="module")
def cases(kit: Path) -> list[Case]:
    made = [Case(case) for case in json.loads((kit / "sifter.json").read_text())["cases"]]
    odd = next(case for case in made if case.name == "pins")
    return [*made, renamed(odd)]


def renamed(case: Case) -> Case:
    """Return a case with names and texts that need quotes and escapes."""
    other: Any = object.__new__(Case)
    other.__dict__.update(case.__dict__, name="odd names")
    price, *others, city = case.plan.space.axes
    values = tuple(ODD if value == "Oslo" else value for value in city.values)
    axes = (replace(price, name='p`r"ice'), *others, replace(city, values=values))
    other.plan = replace(case.plan, space=replace(case.plan.space, axes=axes))
    given = dict(case.columns)
    other.columns = {'p`r"ice': given.pop("price"), **given}
    other.columns["city"] = [ODD if value == "Oslo" else value for value in given["city"]]
    return other


@pytest.mark.spark
def test_spark_keeps_what_the_shedder_keeps(spark: Any, cases: list[Case]) -> None:
    for case in cases:
        kinds = {axis.name: TYPES[axis.kind] for axis in case.plan.space.axes}
        columns = {"place": list(range(case.rows)), **case.columns, **case.keys}
        kinds |= {"place": "int", "user": "string", "shop": "int"}
        schema = ", ".join(f"`{name.replace('`', '``')}` {kinds[name]}" for name in columns)
        rows = spark.createDataFrame(list(zip(*columns.values(), strict=True)), schema)
        made = Expressions(case.plan)
        draw = made.draw(["user:string", "shop:int"], case.salt)
        loads = LOADS if case.plan.regions < 100 else (0.5,)  # Spark takes minutes for large trees
        asked = [f"{made.keep(load, draw)} as at_{k}" for k, load in enumerate(loads)]
        answers = rows.selectExpr("place", f"{made.region()} as region", *asked)
        answered = np.array(answers.orderBy("place").collect(), dtype=object).T[1:]
        assert answered[0].tolist() == case.regions(), case.name
        for load, kept in zip(loads, answered[1:], strict=True):
            assert kept.tolist() == case.decided(load), (case.name, load)


def test_duckdb_finds_the_same_regions_and_keeps_by_given_draws(cases: list[Case]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    pa = pytest.importorskip("pyarrow")
    for case in cases:
        draws = keys.draws_of(list(case.keys.values()), case.salt).astype(np.int64)
        rows = pa.table({**case.columns, "draw": draws, "place": np.arange(case.rows)})
        made = Expressions(case.plan, Target.duckdb)
        query = f"select {made.region()}, {made.keep(0.5, 'draw')} from rows order by place"
        connection = duckdb.connect()
        connection.register("rows", rows)
        regions, kept = zip(*connection.execute(query).fetchall(), strict=True)
        assert list(regions) == case.regions(), case.name
        assert list(kept) == case.decided(0.5), case.name


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home.at(str(tmp_path_factory.mktemp("home")))
    signer = SigningKey.load_or_create(home.keys)
    for family, stream in (("sifter", "ticks"), ("lira", "cars")):
        home.store().publish(
            stream,
            demo_plan(family),
            family=family,
            signer=signer,
            created_at="2026-01-02T03:04:05Z",
        )
    return home


def run(home: Home, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["export", *arguments, "--home", str(home.root)])


def test_the_command_prints_the_expression(home: Home) -> None:
    made = Expressions(demo_plan("sifter"))  # type: ignore[arg-type]
    asked = run(home, "ticks", "--to", "sql", "--at", "0.5", "--key", "id:bigint", "--salt", "3")
    assert asked.stdout.strip() == made.keep(0.5, made.draw(["id:bigint"], 3))
    assert run(home, "ticks", "--to", "duckdb").stdout.strip() == Expressions(
        demo_plan("sifter"), Target.duckdb  # type: ignore[arg-type]
    ).region()  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ("ticks", "--to", "sql", "--at", "0.5"),
        ("ticks", "--to", "sql", "--at", "0.5", "--key", "id"),
        ("ticks", "--to", "sql", "--at", "0.5", "--key", "id:double"),
        ("ticks", "--to", "duckdb", "--at", "0.5", "--key", "id:bigint"),
        ("ticks", "--to", "sql", "--at", "50", "--key", "id:bigint"),
        ("cars", "--to", "sql"),
    ],
)
def test_what_cannot_be_exported_is_refused(home: Home, arguments: tuple[str, ...]) -> None:
    assert isinstance(run(home, *arguments).exception, InvalidInput)
