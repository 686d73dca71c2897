"""What queries and tenants may ask for: wrong values are named with line, field and what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from planning import streams
from planning.commands.streams import app
from planning.errors import DefinitionError, Mistake
from planning.query_files import written_queries
from planning.sifter.parameters import Parameters

TICKS = """\
stream: ticks
family: sifter
attributes:
  - {name: price, domain: [0, 100]}
"""
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
PLANNED = frozenset({"min_completeness", "qos", "priority", "tenant"})


@pytest.fixture(autouse=True)
def sifter_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parameters, "query_terms", PLANNED)


def check(folder: Path, text: str, file: list[dict[str, Any]] | None = None) -> tuple[int, str]:
    """Return what ``headgate streams check`` ends with and says about a definition."""
    path = folder / "ticks.yaml"
    path.write_text(text, encoding="utf-8")
    if file is not None:
        lines = "".join(json.dumps(query) + "\n" for query in file)
        (folder / "asked.jsonl").write_text(lines, encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(path)])
    return done.exit_code, done.output.replace(f"{folder}/", "").strip()


def inline(*queries: str, more: str = "") -> str:
    rows = "".join(f"    - {{{query}}}\n" for query in queries)
    return f"{TICKS}queries:\n  inline:\n{rows}{more}"


FROM_FILE = f"{TICKS}queries:\n  file: asked.jsonl\n"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "min_completeness: 1.5",
            "min_completeness must be less than or equal to 1.0, got 1.5",
        ),
        ("min_completeness: most", "min_completeness must be a number, got 'most'"),
        (
            "qos: [[0, 0], [0.5, 0.2], [1, 1]]",
            "qos must be corners from completeness 0 to [1, 1] whose rises never grow, got "
            "[[0.0, 0.0], [0.5, 0.2], [1.0, 1.0]]",
        ),
        (
            "qos: [[0.1, 0], [1, 1]]",
            "qos must be corners from completeness 0 to [1, 1] whose rises never grow, got "
            "[[0.1, 0.0], [1.0, 1.0]]",
        ),
        (
            "qos: [[0, 0], [0.5, 1], [1, 0.9]]",
            "qos must be corners from completeness 0 to [1, 1] whose rises never grow, got "
            "[[0.0, 0.0], [0.5, 1.0], [1.0, 0.9]]",
        ),
        ("qos: [[0, 0], [1, 1.5]]", "qos[1][1] must be less than or equal to 1.0, got 1.5"),
        ("qos: steep", "qos must be a list, got 'steep'"),
        ("priority: high", "priority must be a whole number, got 'high'"),
        ("priority: 1.5", "priority must be a whole number, got 1.5"),
        ("tenant: 7", "tenant must be a text, got 7"),
        ("max_delta: 5", "max_delta must be absent: family sifter does not plan for it, got 5.0"),
        ("max_delta: 0", "max_delta must be greater than 0.0, got 0"),
    ],
)
def test_a_wrong_term_reads_alike_inline_and_in_a_file(
    tmp_path: Path, query: str, said: str
) -> None:
    code, told = check(tmp_path, inline("name: cheap", f"name: alerts, {query}"))
    assert (code, told) == (1, f"ticks.yaml:8: queries.inline[1].{said}")
    field, _, value = query.partition(": ")
    value = json.loads(value) if value[0] in "[0123456789" else value
    rows = [{"name": "cheap"}, {"name": "alerts", field: value}]
    code, told = check(tmp_path, FROM_FILE, rows)
    assert (code, told) == (1, f"ticks.yaml:6: queries.file: query alerts: {said}")


def test_either_a_slope_or_a_line_of_qos(tmp_path: Path) -> None:
    query = "name: alerts, qos_slope: 0.5, qos: [[0, 0], [1, 1]]"
    code, told = check(tmp_path, inline(query))
    assert code == 1
    assert told.endswith("must have either qos or qos_slope, got both")
    assert told.startswith("ticks.yaml:7: queries.inline[0]")
    row = {"name": "alerts", "qos_slope": 0.5, "qos": [[0, 0], [1, 1]]}
    said = "query alerts must have either qos or qos_slope, got both"
    assert check(tmp_path, FROM_FILE, [row]) == (1, f"ticks.yaml:6: queries.file: {said}")


def test_a_query_of_a_file_without_a_name_is_told_by_its_place(tmp_path: Path) -> None:
    _, told = check(tmp_path, FROM_FILE, [{}, {"min_completeness": -1}])
    said = "query 1: min_completeness must be greater than or equal to 0.0, got -1"
    assert told == f"ticks.yaml:6: queries.file: {said}"


def test_a_misspelt_term_in_a_file_is_no_silent_gift(tmp_path: Path) -> None:
    for text in (TICKS, SHIPS):
        row = {"name": "alerts", "min_completness": 0.9}
        code, told = check(tmp_path, f"{text}queries: {{file: asked.jsonl}}\n", [row])
        assert code == 1
        assert "query alerts: fields must be max_delta, min_completeness," in told
        assert told.endswith("got min_completness")


def test_terms_of_another_family_are_refused_and_defaults_are_not(tmp_path: Path) -> None:
    text = f"{SHIPS}queries: {{inline: [{{name: bay, qos: [[0, 0], [1, 1]], priority: 0}}]}}\n"
    code, told = check(tmp_path, text)
    assert (code, "family lira does not plan for it" in told) == (1, True)
    assert told.startswith("ticks.yaml:9: queries.inline[0].qos must be absent")
    text = f"{SHIPS}queries: {{inline: [{{name: bay, tenant: '', min_completeness: 0}}]}}\n"
    assert check(tmp_path, text)[0] == 0
    row = {"name": "bay", "tenant": "", "min_completeness": 0}
    assert check(tmp_path, f"{SHIPS}queries: {{file: asked.jsonl}}\n", [row])[0] == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("  tenants: {acme: {max_loss: 1.5}}\n", "tenants.acme.max_loss must be less than or"),
        ("  tenants: {acme: {weight: 0}}\n", "tenants.acme.weight must be greater than 0.0, got 0"),
        ("  tenants: {acme: {max_los: 0.2}}\n", "tenants.acme.max_los must be a known field"),
        ("  tenant_gap: -0.1\n", "tenant_gap must be greater than or equal to 0.0, got -0.1"),
        (
            "  tenants: {acme: {}, omni: {max_loss: 0.3}}\n",
            "tenants.omni must be the tenant of at least one query, got no query that names it; "
            "name it as tenant of a query, or remove it",
        ),
    ],
)
def test_wrong_tenants(tmp_path: Path, more: str, said: str) -> None:
    code, told = check(tmp_path, inline("name: alerts, tenant: acme", more=more))
    assert (code, told.startswith(f"ticks.yaml:8: queries.{said}")) == (1, True), told
    code, told = check(tmp_path, FROM_FILE + more, [{"name": "alerts", "tenant": "acme"}])
    assert (code, told.startswith(f"ticks.yaml:7: queries.{said}")) == (1, True), told


@pytest.mark.parametrize("more", ["tenants: {acme: {max_loss: 0.3}}", "tenant_gap: 0.1"])
def test_tenants_are_refused_where_the_family_has_none(tmp_path: Path, more: str) -> None:
    code, told = check(tmp_path, f"{SHIPS}queries:\n  {more}\n")
    assert code == 1
    field = more.partition(":")[0]
    said = f"queries.{field} must be absent: family lira plans without tenants"
    assert told.startswith(f"ticks.yaml:10: {said}")


def test_good_terms_pass_and_reach_the_planner_typed(tmp_path: Path) -> None:
    text = inline(
        "name: alerts, min_completeness: 0.95, priority: 2",
        "name: charts, qos: [[0, 0], [0.5, 0.9], [1, 1]], tenant: undeclared",
        "name: logs, priority: 3",
        more="  file: asked.jsonl\n  tenants: {acme: {max_loss: 0.3, priority: 1}}\n",
    )
    rows = [{"name": "bills", "tenant": "acme", "min_completeness": 1, "qos": [[0, 0], [1, 1]]}]
    assert check(tmp_path, text, rows) == (0, "ticks.yaml: ok (ticks, sifter)")
    definition = streams.load(tmp_path / "ticks.yaml")
    assert written_queries(definition) == [
        {"name": "alerts", "min_completeness": 0.95, "priority": 2},
        {"name": "charts", "qos": ((0, 0), (0.5, 0.9), (1, 1)), "tenant": "undeclared"},
        {"name": "logs", "priority": 3},
        {"name": "bills", "tenant": "acme", "min_completeness": 1.0, "qos": ((0, 0), (1, 1))},
    ]
    changed = definition.with_parameters({"regions": 4})
    assert (changed.queries, changed.parameters.regions) == (definition.queries, 4)


def test_a_query_file_of_a_run_is_checked_like_the_one_that_was_checked(tmp_path: Path) -> None:
    assert check(tmp_path, FROM_FILE, [{"name": "alerts"}])[0] == 0
    definition = streams.load(tmp_path / "ticks.yaml")
    (tmp_path / "asked.jsonl").write_text('{"name": "alerts", "max_delta": 5}\n')
    with pytest.raises(Mistake, match="query alerts: max_delta must be absent: family sifter"):
        written_queries(definition)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gate: {certificate_s: 0}", "gate.certificate_s must be greater than 0.0, got 0"),
        ("gate: {certificate_s: soon}", "gate.certificate_s must be a number, got 'soon'"),
        ("gate: {certificate: 2}", "gate.certificate must be a known field, got 2; did you mean"),
    ],
)
def test_the_time_of_a_certificate(tmp_path: Path, text: str, said: str) -> None:
    code, told = check(tmp_path, f"{TICKS}{text}\n")
    assert (code, told.startswith(f"ticks.yaml:5: {said}")) == (1, True), told
    assert check(tmp_path, f"{TICKS}gate: {{certificate_s: 0.5}}\n")[0] == 0


def test_tenants_alone_are_refused_where_a_family_plans_without_queries(tmp_path: Path) -> None:
    sensors = Path(__file__).parents[2] / "dags" / "streams" / "sensors.yaml"
    (tmp_path / "sensors.yaml").write_text(
        sensors.read_text(encoding="utf-8") + "\nqueries: {tenant_gap: 0.1}\n", encoding="utf-8"
    )
    with pytest.raises(DefinitionError) as caught:
        streams.load(tmp_path / "sensors.yaml")
    (problem,) = caught.value.problems
    assert (problem.field, problem.got) == ("queries.tenant_gap", "0.1")
