"""Stream definitions: everything wrong is found at once and named."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from planning import families, streams
from planning.errors import DefinitionError, InvalidInput
from planning.lira.queries import queries_of

REPOSITORY = Path(__file__).parents[2]

GOOD = """
stream: ticks
family: sifter
attributes:
  - {name: price, type: float, domain: [0, 100]}
  - {name: venue, type: category, values: [xetra, tradegate]}
queries:
  inline:
    - {name: cheap, ranges: {price: [0, 10]}, weight: 2}
parameters: {regions: 9}
schedule: "*/30 * * * *"
"""


def write(folder: Path, text: str, name: str = "ticks.yaml") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def problems(folder: Path, text: str) -> list[tuple[int, str]]:
    with pytest.raises(DefinitionError) as caught:
        streams.load(write(folder, text))
    return [(p.line, p.field) for p in caught.value.problems]


def test_a_good_definition_is_typed_and_has_the_papers_defaults(tmp_path: Path) -> None:
    definition = streams.load(write(tmp_path, GOOD))
    assert definition.attribute_names == ("price", "venue")
    assert definition.parameters.regions == 9
    assert definition.parameters.fairness_threshold == 0.5
    assert definition.attributes[1].bounds == (0.0, 2.0)
    assert definition.landing == "landing/ticks"
    assert definition.queries.inline[0].weight == 2.0


def test_every_mistake_is_reported_with_its_line(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """\
        stream: Ticks
        family: sifter
        attributes:
          - {name: price, domain: [0, 100]}
          - {name: volume, domain: [9, 1]}
        gate:
          holdout: 1.5
        parameters:
          regions: 0
          fairnes_threshold: 0.2
        schedule: often
        """,
    )
    assert found == [
        (1, "stream"),
        (5, "attributes[1].domain"),
        (7, "gate.holdout"),
        (9, "parameters.regions"),
        (10, "parameters.fairnes_threshold"),
        (11, "schedule"),
    ]


SHIPS = """\
    stream: ships
    family: lira
    attributes:
      - {name: object_id, type: int, domain: [0, 1000]}
      - {name: time, domain: [0, 1000]}
      - {name: x, domain: [0, 1000]}
      - {name: y, domain: [0, 1000]}
      - {name: speed, domain: [0, 30]}
    """


@pytest.mark.parametrize(
    ("query", "given"),
    [("ranges: {x: [0, 9], speed: [0, 9]}", "x, speed"), ("where: x < 9", "where")],
)
def test_queries_of_lira_ask_about_places(tmp_path: Path, query: str, given: str) -> None:
    text = SHIPS + f"queries: {{inline: [{{{query}}}]}}\n"
    with pytest.raises(DefinitionError, match="ranges of x and y") as caught:
        streams.load(write(tmp_path, text))
    assert f"got {given}" in str(caught.value)
    (tmp_path / "asked.jsonl").write_text('{"ranges": {"speed": [0, 9]}}\n{"where": "x < 9"}\n')
    definition = streams.load(write(tmp_path, SHIPS + "queries: {file: asked.jsonl}\n"))
    with pytest.raises(InvalidInput, match="query 0 must be ranges of x and y, got speed"):
        queries_of(definition)


def test_a_family_brings_its_defaults_and_the_definition_overrules_them(tmp_path: Path) -> None:
    definition = streams.load(write(tmp_path, SHIPS))
    assert definition.gate.holdout_by == ("object_id",)
    assert definition.samples.expectations == "positions"
    more = "gate: {holdout_by: [time]}\n    samples: {expectations: tuples, min_rows: 7}\n"
    overruled = streams.load(write(tmp_path, SHIPS + more))
    assert overruled.gate.holdout_by == ("time",)
    assert (overruled.samples.expectations, overruled.samples.min_rows) == ("tuples", 7)
    ticks = streams.load(write(tmp_path, GOOD))
    assert (ticks.gate.holdout_by, ticks.samples.expectations) == ((), "tuples")


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ("family: sieve", f"one of {', '.join(families.NAMES)}"),
        ("retention: {versions: 1}", "greater than or equal to 2"),
        ("samples: {format: csv}", "'parquet' or 'jsonl'"),
        ("gate: {loads: []}", "at least one load"),
        ("validity: {fallback: panic}", "'keep', 'pass' or 'uniform'"),
        ("parameters: {fairness_threshold: 1.5}", "less than or equal to 1"),
        ('schedule: "61 * * * *"', "a cron expression of five fields"),
        ('schedule: "*/5 * *"', "a cron expression of five fields"),
        ("parameters: {regions: many}", "a whole number, got 'many'"),
        ("parameters: {regions: 1.5}", "a whole number, got 1.5"),
        ("parameters: {fairness_threshold: low}", "a number, got 'low'"),
        ("gate: {loads: 0.5}", "a list, got 0.5"),
        ("demo: maybe", "true or false, got 'maybe'"),
        ("owner: 7", "a text, got 7"),
    ],
)
def test_messages_say_what_is_allowed(tmp_path: Path, change: str, allowed: str) -> None:
    field = change.partition(":")[0]
    lines = [line for line in GOOD.strip().splitlines() if not line.startswith(field + ":")]
    with pytest.raises(DefinitionError, match="got ") as caught:
        streams.load(write(tmp_path, "\n".join([*lines, change])))
    assert allowed in str(caught.value)


def test_a_query_over_an_unknown_attribute_is_named(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="attributes price, venue, got prize") as caught:
        streams.load(write(tmp_path, GOOD.replace("ranges: {price:", "ranges: {prize:")))
    (problem,) = caught.value.problems
    assert (problem.line, problem.field) == (9, "queries.inline[0].ranges")


def test_a_query_that_never_meets_the_domain_is_named(tmp_path: Path) -> None:
    text = GOOD.replace("ranges: {price: [0, 10]}", "ranges: {price: [1000, 2000]}")
    with pytest.raises(DefinitionError, match=r"domain \[.*\], got \[1000, 2000\]") as caught:
        streams.load(write(tmp_path, text))
    (problem,) = caught.value.problems
    assert (problem.line, problem.field) == (9, "queries.inline[0].ranges.price")


@pytest.mark.parametrize("name", ["attributes", "joins", "fit"])
@pytest.mark.parametrize("queries", ["inline: [{name: all}]", "file: all.jsonl"])
def test_queries_that_a_family_would_not_look_at_are_refused(
    tmp_path: Path, name: str, queries: str
) -> None:
    with pytest.raises(DefinitionError, match=f"family {name} plans without queries") as caught:
        streams.load(write(tmp_path, f"{_documented(name)}queries: {{{queries}}}\n"))
    assert caught.value.problems[0].field == f"queries.{queries.partition(':')[0]}"


def _documented(name: str) -> str:
    text = (REPOSITORY / "docs" / "families" / f"{name}.md").read_text(encoding="utf-8")
    (definition,) = re.findall(r"```yaml\n(stream: .*?)```", text, re.DOTALL)
    return str(definition)


def test_a_mistake_in_sql_is_found_on_the_line_of_its_query(tmp_path: Path) -> None:
    text = GOOD.replace("ranges: {price: [0, 10]}", 'where: "prize < 10"')
    with pytest.raises(DefinitionError, match="attribute of price, venue, got 'prize'") as caught:
        streams.load(write(tmp_path, text))
    (problem,) = caught.value.problems
    assert (problem.line, problem.field) == (9, "queries.inline[0]: query cheap: where")


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("parameters: {region: 9}", "did you mean regions?"),
        ("gate: {hold_out: 0.3}", "did you mean holdout?"),
        ("regions: 9", "it belongs below parameters"),
        ("retention: {days: 9}", "known here: versions, runs"),
    ],
)
def test_an_unknown_field_gets_a_suggestion(
    tmp_path: Path, text: str, remedy: str
) -> None:
    given = GOOD.replace("parameters: {regions: 9}\n", text + "\n")
    with pytest.raises(DefinitionError) as caught:
        streams.load(write(tmp_path, given))
    (problem,) = caught.value.problems
    assert problem.line == given[: given.index(text)].count("\n") + 1
    assert remedy in problem.remedy


@pytest.mark.parametrize(
    ("name", "given", "instead", "message"),
    [
        (
            "fit",
            "inputs: [uploads]",
            "inputs: [upload]",
            "parameters.network.operators[0].inputs[0]: operator decode must read an input or "
            "operator, got unknown stream 'upload'",
        ),
        (
            "joins",
            "items: [article]",
            "items: []",
            "parameters.items must be a list of at least 1 item(s), got []",
        ),
        (
            "joins",
            "threshold: 1 ",
            "threshold: 2 ",
            "parameters.threshold must be at most 1, the number of items: nothing could match "
            "otherwise, got 2",
        ),
        (
            "joins",
            "time: seconds",
            "time: article",
            "parameters.items must be other attributes than the time, got article",
        ),
        (
            "joins",
            "time: seconds",
            "time: source",
            "attribute source must be a number, the time, got a category",
        ),
    ],
)
def test_a_family_s_mistakes_read_as_sentences(
    tmp_path: Path, name: str, given: str, instead: str, message: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        streams.load(write(tmp_path, _documented(name).replace(given, instead)))
    assert message in str(caught.value)


def test_rows_are_held_out_by_columns_that_exist(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="columns of the samples") as caught:
        streams.load(write(tmp_path, GOOD + "gate: {holdout_by: [prize]}\n"))
    assert caught.value.problems[0].field == "gate.holdout_by"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("stream: [", "file"),
        ("- 1\n- 2\n", "file"),
        ("stream: a\nfamily: sifter\nattributes: 3\nqueries: 4\nparameters: 5\n", "attributes"),
        ("", "file"),
        ("stream: a\nstream: b\n", "stream"),
    ],
)
def test_text_that_is_no_definition(tmp_path: Path, text: str, field: str) -> None:
    assert problems(tmp_path, text)[0][1] == field


def test_a_missing_file_and_binary_content_are_clear(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="a readable file"):
        streams.load(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DefinitionError, match="UTF-8 text"):
        streams.load(tmp_path / "binary.yaml")


def test_a_folder_gives_the_good_ones_and_the_errors_of_the_others(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "a.yaml")
    write(tmp_path, GOOD, "b.yaml")
    write(tmp_path, "stream: x", "c.yml")
    good, bad = streams.load_folder(tmp_path)
    assert [d.stream for d in good] == ["ticks"]
    assert [Path(e.problems[0].file).name for e in bad] == ["b.yaml", "c.yml"]
    assert "a name of its own" in str(bad[0])


def test_overrides_are_checked_like_the_file(tmp_path: Path) -> None:
    definition = streams.load(write(tmp_path, GOOD))
    assert definition.with_parameters({"regions": 25}).parameters.regions == 25
    assert definition.parameters.regions == 9
    with pytest.raises(DefinitionError, match=r"^overrides of stream ticks: parameters\.regions "):
        definition.with_parameters({"regions": -1})


def test_a_definition_survives_json(tmp_path: Path) -> None:
    definition = streams.load(write(tmp_path, GOOD))
    again = streams.parse(definition.model_dump(mode="json"), definition.source)
    assert again == definition


@pytest.mark.parametrize("page", ["README", *(f"docs/families/{n}" for n in families.NAMES)])
def test_the_documented_definitions_are_good(tmp_path: Path, page: str) -> None:
    text = (REPOSITORY / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"```yaml\n(stream: .*?)```", text, re.DOTALL)
    assert len(found) == 1
    definition = streams.load(write(tmp_path, found[0]))
    assert definition.family == (page.rpartition("/")[2] if "/" in page else "sifter")


def test_the_demo_streams_are_good() -> None:
    good, bad = streams.load_folder(REPOSITORY / "dags" / "streams")
    assert not bad
    assert "ticks" in [d.stream for d in good if d.demo]
