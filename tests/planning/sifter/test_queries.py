"""Queries: ranges and SQL text as boxes, against evaluating the predicate itself."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upath import UPath

from planning import query_files
from planning.errors import DefinitionError, InvalidInput
from planning.sifter import queries
from planning.sifter.model import Axis, Space
from planning.sifter.queries.matching import PointIndex, hit_counts, spread
from planning.sifter.queries.where import disjoint_boxes

SPACE = Space(
    (
        Axis("x", "float", 0.0, float(np.nextafter(10.0, np.inf))),
        Axis("n", "int", 0.0, 8.0),
        Axis("c", "category", 0.0, 4.0, ("a", "b", "c", "d")),
    )
)


def grid():
    xs = np.array([0.0, 1.0, 2.5, 3.0, np.nextafter(3.0, 9), 5.0, 9.9, 10.0])
    return np.array([(x, n, c) for x in xs for n in range(8) for c in range(4)])


numbers = st.sampled_from(["0", "1", "2.5", "3", "5", "-4", "11"])
comparisons = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["x", "n"]),
        st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]),
        numbers,
    ),
    st.builds(
        "{} {} x".format, numbers, st.sampled_from(["<", "<=", ">", ">=", "="])
    ),
    st.builds("c {} '{}'".format, st.sampled_from(["=", "<>"]), st.sampled_from("abcd")),
    st.builds("x BETWEEN {} AND {}".format, numbers, numbers),
    st.builds("n IN ({}, {})".format, numbers, numbers),
    st.builds("c IN ('{}', '{}')".format, st.sampled_from("abcd"), st.sampled_from("abcd")),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)


def evaluate(text, x, n, c):
    """Evaluate the SQL text in Python."""
    python = text.replace("<>", "!=").replace("AND", "and").replace("OR", "or")
    python = python.replace("NOT", "not").replace(" IN ", " in ")
    for name in "xn":
        python = python.replace(f"{name} = ", f"{name} == ")
    python = python.replace("c = ", "c == ")
    for number in ("0", "1", "2.5", "3", "5", "-4", "11"):
        python = python.replace(f"{number} = x", f"{number} == x")
    while "BETWEEN" in python:
        head, tail = python.split(" BETWEEN ", 1)
        low, rest = tail.split(" and ", 1)
        end = next((i for i, ch in enumerate(rest) if ch in " )"), len(rest))
        name = head[-1]
        python = f"{head[:-1]}({low} <= {name} <= {rest[:end]}){rest[end:]}"
    return eval(python, {"x": x, "n": n, "c": c})  # noqa: S307


@settings(max_examples=120, deadline=None)
@given(conditions)
def test_boxes_hold_exactly_where_the_condition_does_and_are_disjoint(text):
    boxes = disjoint_boxes(text, SPACE)
    points = grid()
    inside = np.zeros(len(points), dtype=int)
    for low, high in boxes:
        inside += ((low <= points) & (points < high)).all(axis=1)
    expected = [bool(evaluate(text, x, n, "abcd"[int(c)])) for x, n, c in points]
    assert inside.max(initial=0) <= 1
    assert inside.astype(bool).tolist() == expected


def test_the_papers_example_condition():
    # Section II-B: not (x1 < 4 and (x1 > 3 or x2 < 5)).
    space = Space((Axis("x1", "float", 0, 10), Axis("x2", "float", 0, 10)))
    boxes = disjoint_boxes("NOT (x1 < 4 AND (x1 > 3 OR x2 < 5))", space)
    area = sum(np.prod(high - low) for low, high in boxes)
    assert area == pytest.approx(100 - 10 - 15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x <", "SQL condition"),
        ("x + 1 < 3", "an attribute of x, n, c"),
        ("q < 3", "an attribute of x, n, c"),
        ("x < n", "a constant"),
        ("x < 'tall'", "a number for x"),
        ("c = 'z'", "one of a, b, c, d for c"),
        ("c < 'b'", "=, <>, IN on category c"),
        ("x LIKE 'a'", "comparisons joined by"),
    ],
)
def test_a_condition_that_cannot_be_used_says_why(text, message):
    with pytest.raises(InvalidInput, match=message):
        disjoint_boxes(text, SPACE, "query 7")


def test_one_query_of_several_boxes_has_one_weight(make):
    definition = make([{"where": "x < 0.2 OR y > 0.9", "weight": 3}, {"ranges": {"x": [0, 1]}}])
    asked = queries.of(definition)
    assert asked.count == 2
    assert asked.weight.tolist() == [0.75, 0.25]
    assert sorted(asked.owner.tolist()) == [0, 0, 1]


def test_queries_outside_the_domain_and_equality_on_a_float(make):
    written = [{"ranges": {"x": [5, 6]}}, {"ranges": {"x": [0.5, 0.5]}}]
    asked = queries.parse(written, Space.of(make()))
    assert asked.owner.tolist() == [1]  # no box is left of the first
    hits = hit_counts(np.array([[0.5, 0.1], [0.5 + 1e-9, 0.1]]), asked)
    assert hits.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"ranges": {"z": [0, 1]}}, "ranges must name x, y, got z"),
        ({"ranges": {"x": [1, 0]}}, r"must be \[low, high\]"),
        ({"ranges": {"x": 3}}, r"must be \[low, high\]"),
        ({"weight": -1}, "weight must be"),
        ({"weight": "heavy"}, "weight must be a finite number"),
        ({"weight": None}, "weight must be a finite number"),
        ({"qos_slope": float("nan")}, "qos_slope must be"),
        (
            {"wieght": 2},
            "fields must be max_delta, min_completeness, name, priority, qos, qos_slope, ranges, "
            "tenant, weight, where, got wieght",
        ),
    ],
)
def test_bad_entries_are_named(make, entry, message):
    with pytest.raises(InvalidInput, match=message):
        queries.parse([entry], Space.of(make()))


def test_weights_must_not_all_be_zero(make):
    with pytest.raises(InvalidInput, match="not all be 0"):
        queries.parse([{"weight": 0}, {"weight": 0}], Space.of(make()))


def test_files_of_json_lines_and_parquet_give_the_same_queries(tmp_path, make):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    lines = tmp_path / "q.jsonl"
    lines.write_text(json.dumps({"ranges": {"x": [0.1, 0.2]}, "weight": 2.0}) + "\n\n")
    table = {"x_low": [0.1], "x_high": [0.2], "weight": [2.0]}
    parquet.write_table(pa.table(table), tmp_path / "q.parquet")
    space = Space.of(make())
    one = queries.parse(query_files.read(UPath(lines)), space)
    two = queries.parse(query_files.read(UPath(tmp_path / "q.parquet")), space)
    assert one.low.tolist() == two.low.tolist()
    assert one.high.tolist() == two.high.tolist()


def test_parquet_without_a_partner_column_or_with_other_content_is_refused(tmp_path, make):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parquet.write_table(pa.table({"x_low": [0.1]}), tmp_path / "half.parquet")
    with pytest.raises(InvalidInput, match=r"range of x must be \[low, high\]"):
        queries.parse(query_files.read(UPath(tmp_path / "half.parquet")), Space.of(make()))
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(InvalidInput, match=r"queries.file must be Parquet, got .*text.parquet"):
        query_files.read(UPath(tmp_path / "text.parquet"))


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_broken_line_is_named(tmp_path, content):
    (tmp_path / "q.jsonl").write_text("{}\n" + content)
    with pytest.raises(InvalidInput, match="q.jsonl:2 must be one JSON object"):
        query_files.read(UPath(tmp_path / "q.jsonl"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match="queries.file must be readable"):
        query_files.read(UPath(tmp_path / "none.jsonl"))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_matching_equals_comparing_every_pair(rng, dimensions):
    points = rng.random((500, dimensions)).round(2)
    points[:3] = np.nan
    low = rng.random((60, dimensions)).round(2)
    high = low + rng.choice([0.05, 0.3, 1.0], (60, dimensions))
    owner = np.sort(rng.integers(0, 40, 60))
    owner[0] = 39
    asked = queries.boxes(low, high, owner=owner)
    pairs = ((low[:, None] <= points) & (points < high[:, None])).all(axis=2)
    assert hit_counts(points, asked).tolist() == pairs.sum(axis=0).tolist()
    index = PointIndex.of(points)
    for values in rng.random((2, 500)):
        expected = np.bincount(owner, weights=pairs @ values, minlength=40)
        assert index.totals(asked, values) == pytest.approx(expected)


def test_spread_keeps_all_mass(rng):
    points = rng.random((300, 2))
    low = rng.random((50, 2))
    asked = queries.boxes(low, low + rng.choice([0.01, 0.4], (50, 2)))
    mass, center_mass = spread(points, asked)
    assert mass.sum() + center_mass.sum() == pytest.approx(1.0)
    assert mass.sum() > 0.05
    assert center_mass.sum() > 0.1


def test_rearranged_categories_match_the_same_tuples(make, rng):
    attributes = [
        {"name": "x", "domain": [0, 1]},
        {"name": "c", "type": "category", "values": list("abcde")},
    ]
    definition = make(
        [{"where": "c IN ('a', 'c', 'd') AND x < 0.5"}, {"where": "c <> 'b'"}],
        attributes=attributes,
    )
    asked = queries.of(definition)
    order = (3, 0, 4, 1, 2)
    moved = queries.arranged(asked, ((), order))
    points = np.column_stack([rng.random(200), rng.integers(0, 5, 200)])
    placed = points.copy()
    placed[:, 1] = np.array(order)[points[:, 1].astype(int)]
    ones = np.ones(200)
    before = PointIndex.of(points).totals(asked, ones)
    after = PointIndex.of(placed).totals(moved, ones)
    assert before.tolist() == after.tolist()


@pytest.mark.parametrize(
    ("queries_given", "parameters", "field", "allowed", "got"),
    [
        (
            [{"ranges": {"x": [0, 1]}}, {"where": "z < 3", "name": "a"}],
            {},
            "queries.inline[1]: query a: where",
            "a condition with an attribute of x, y",
            "'z'",
        ),
        (
            [],
            {"pins": ["x > 0.5", "y = 'far'"]},
            "parameters.pins[1]: pin 1: where",
            "a condition with a number for y",
            "\"'far'\"",
        ),
    ],
)
def test_a_definition_with_a_bad_condition_is_refused(
    make, queries_given, parameters, field, allowed, got
):
    with pytest.raises(DefinitionError) as caught:
        make(queries_given, parameters)
    (problem,) = caught.value.problems
    assert (problem.field, problem.allowed, problem.got) == (field, allowed, got)


def test_a_pin_that_is_no_sql_is_refused(make):
    message = "pin 0: where must be a SQL condition, got 'x >'"
    with pytest.raises(DefinitionError, match=message):
        make([], {"pins": ["x >"]})
