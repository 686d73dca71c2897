"""The command line as a user or a script meets it: a real process, its output and exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEADGATE = Path(sys.executable).parent / "headgate"
DEMOS = Path(__file__).parents[3] / "dags" / "streams"
STREAM = """
stream: ticks
family: sifter
attributes:
  - {name: price, type: float, domain: [0, 100]}
  - {name: volume, type: float, domain: [0, 1000]}
queries:
  inline:
    - {name: cheap, ranges: {price: [0, 30]}, weight: 2}
    - {name: large, ranges: {volume: [600, 1000]}}
demo: true
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a stream definition and two landed batches, the first one planned."""
    from upath import UPath

    from planning.sifter import demo
    from planning.streams import load

    folder = tmp_path_factory.mktemp("cli")
    (folder / "streams").mkdir()
    (folder / "streams" / "ticks.yaml").write_text(STREAM, encoding="utf-8")
    definition = load(folder / "streams" / "ticks.yaml")
    demo.land(UPath(folder / "home" / "landing" / "ticks"), 0, definition)
    first = headgate(folder, "plan", "ticks", "--json")
    assert first.returncode == 0, first.stderr
    return folder


def headgate(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HEADGATE, *arguments],
        capture_output=True,
        text=True,
        env=os.environ
        | {"HEADGATE_HOME": str(folder / "home"), "HEADGATE_STREAMS": str(folder / "streams")}
        | environment,
    )


def test_plan_then_look_diff_roll_back_and_verify(place: Path) -> None:
    nothing = headgate(place, "plan", "ticks")
    assert nothing.returncode == 3
    assert "no new parquet files" in nothing.stderr
    again = headgate(place, "plan", "ticks", "--force", "--set", "regions=4", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["published"]["version"] == 2
    shown = json.loads(headgate(place, "show", "ticks", "--at", "0.5", "--json").stdout)
    assert shown["manifest"]["version"] == 2
    assert 1 < len(shown["setting"]["drop_thresholds"]) <= 4
    difference = json.loads(headgate(place, "diff", "ticks", "1", "2", "--json").stdout)
    assert any(change["path"] == "parameters.regions" for change in difference["manifest"])
    back = headgate(place, "rollback", "ticks", "--to", "1", "--reason", "try", "--json")
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["rollback_of"] == 1
    kept = json.loads(headgate(place, "history", "ticks", "--json").stdout)
    assert [(m["version"], m["rollback_of"]) for m in kept] == [(3, 1), (2, None), (1, None)]
    assert kept[0]["payloads"] == kept[2]["payloads"]
    assert headgate(place, "verify", "ticks", "--all").returncode == 0


def test_queries_may_be_below_the_home_that_an_option_names(tmp_path: Path) -> None:
    from upath import UPath

    from planning.sifter import demo
    from planning.streams import load

    home = tmp_path / "named home"
    (tmp_path / "streams").mkdir()
    file = tmp_path / "streams" / "ticks.yaml"
    before, _, _ = STREAM.partition("  inline:")
    file.write_text(f"{before}  file: asked.jsonl\ndemo: true\n", encoding="utf-8")
    demo.land(UPath(home / "landing" / "ticks"), 0, load(file))
    missing = headgate(tmp_path, "plan", "ticks", "--home", str(home))
    assert missing.returncode == 1
    assert "queries.file must be readable" in missing.stderr
    (home / "asked.jsonl").write_text('{"ranges": {"price": [0, 30]}}\n', encoding="utf-8")
    planned = headgate(tmp_path, "plan", "ticks", "--home", str(home))
    assert planned.returncode == 0, planned.stderr
    tried = headgate(tmp_path, "simulate", "ticks", "--home", str(home), "--loads", "0.4", "--json")
    assert tried.returncode == 0, tried.stderr
    [row] = json.loads(tried.stdout)
    assert row["quality"] > row["random_quality"]


def test_a_dry_run_publishes_nothing(place: Path) -> None:
    before = headgate(place, "history", "ticks", "--json").stdout
    dry = headgate(place, "plan", "ticks", "--force", "--dry-run", "--json")
    assert dry.returncode == 0, dry.stderr
    assert json.loads(dry.stdout)["published"] is None
    assert headgate(place, "history", "ticks", "--json").stdout == before


def test_simulate_at_any_load(place: Path) -> None:
    result = headgate(place, "simulate", "ticks", "--loads", "0.2,0.8", "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [row["load"] for row in rows] == [0.2, 0.8]
    assert all(row["quality"] > row["random_quality"] for row in rows)


@pytest.mark.parametrize(
    ("code", "command", "message"),
    [
        (6, "show nope", "stream nope has no published plan"),
        (1, "plan nope", "stream must be one that"),
        (1, "plan ticks --set regions=zero", "headgate: overrides of stream ticks: p"),
        (1, "plan ticks --set regions", "--set must be name=value"),
        (1, "simulate ticks --loads half", "load must be a fraction in [0, 1], got 'half'"),
        (1, "simulate ticks --at i1=200", "load must be one fraction in [0, 1], got 'i1=200'"),
        (1, "show ticks --at i1=200,i2=50", "this plan is no function of input rates"),
        (1, "show ticks --at 50", "got 50; pass a fraction, not a percentage (0.5 for 50 %)"),
        (1, "simulate ticks --loads 1.5", "load must lie in (0, 1], got 1.5"),
        (1, "simulate ticks --loads 0", "load must lie in (0, 1], got 0"),
        (1, "simulate ticks --samples absent.parquet", "absent.parquet holds no Parq"),
        (1, "simulate ticks --samples {here}", "is not a whole Parquet file"),
        (1, "show ticks --at 1.5", "load must lie in [0, 1], got 1.5"),
        (6, "verify nope", "stream nope has no published plan"),
        (6, "verify nope --all", "stream nope has no published plan"),
        (2, "verify ticks --all --version 1", "either --version or --all"),
        (6, "history nope", "stream nope has no published plan"),
        (6, "diff ticks 1 99", "no version 99"),
        (1, "plan ticks --streams absent", "at least one *.yaml file, got absent"),
        (1, "streams check --streams absent", "at least one *.yaml file, got absent"),
        (1, "streams list --streams absent", "at least one *.yaml file, got absent"),
        (1, "plan ticks --set region=4", "did you mean regions?"),
        (6, "show ticks --version 99", "no version 99"),
        (6, "rollback ticks --to 99 --reason x", "no version 99"),
        (2, "frobnicate", "No such command"),
    ],
)
def test_bad_input_is_one_paragraph_and_an_exit_code(
    place: Path, command: str, code: int, message: str
) -> None:
    result = headgate(place, *command.format(here=__file__).split())
    assert (result.returncode, message in " ".join(result.stderr.split())) == (code, True), result
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "columns", "code", "message"),
    [
        ("a.parquet", {"price": [1.0] * 200}, 1, "a.parquet lacks the columns volume"),
        ("a.jsonl", {}, 3, "1 of format jsonl, but samples.format is parquet"),
        (
            "a.parquet",
            {"price": [1.0] * 200, "volume": [-1.0] * 150 + [1.0] * 50},
            1,
            "got 150 of 200 quarantined: volume is outside [0, 1000] (150);",
        ),
        (
            "a.parquet",
            {"price": [1.0] * 200, "volume": ["7"] * 50 + ["seven"] * 150},
            1,
            "got 150 of 200 quarantined: volume is not a number (150);",
        ),
    ],
)
def test_plan_says_what_is_wrong_with_what_landed(
    tmp_path: Path, name: str, columns: dict[str, list[float]], code: int, message: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    landing = tmp_path / "home" / "landing" / "ticks"
    landing.mkdir(parents=True)
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "ticks.yaml").write_text(STREAM, encoding="utf-8")
    if columns:
        pq.write_table(pa.table(columns), landing / name)
    else:
        (landing / name).write_text("{}")
    result = headgate(tmp_path, "plan", "ticks")
    assert (result.returncode, message in result.stderr) == (code, True), result.stderr


def test_simulate_reads_json_lines(place: Path, tmp_path: Path) -> None:
    rows = [{"price": 10 + i % 80, "volume": 100 + i % 700} for i in range(400)]
    fresh = tmp_path / "fresh.jsonl"
    fresh.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    result = headgate(place, "simulate", "ticks", "--samples", str(fresh), "--json")
    assert result.returncode == 0, result.stderr
    assert {row["offered"] for row in json.loads(result.stdout)} == {400}


def test_samples_of_another_stream_are_refused(place: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"price": [1.0], "pieces": [2.0]}), tmp_path / "other.parquet")
    result = headgate(place, "simulate", "ticks", "--samples", str(tmp_path))
    assert result.returncode == 1
    assert "other.parquet must hold the columns price, volume" in result.stderr
    assert "got none called volume" in result.stderr


def test_texts_that_spell_numbers_are_planned_and_the_others_quarantined(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    landing = tmp_path / "home" / "landing" / "ticks"
    landing.mkdir(parents=True)
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "ticks.yaml").write_text(STREAM, encoding="utf-8")
    prices = [float(i % 100) for i in range(1000)]
    volumes = ["plenty", *(str(i % 1000) for i in range(999))]
    pq.write_table(pa.table({"price": prices, "volume": volumes}), landing / "a.parquet")
    result = headgate(tmp_path, "plan", "ticks")
    assert result.returncode == 0, result.stderr
    [quarantine] = (tmp_path / "home" / "runs" / "ticks").glob("*/quarantine/*.jsonl")
    [line] = quarantine.read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == {
        "row": {"price": 0.0, "volume": "plenty"}, "reasons": ["volume is not a number"],
    }  # fmt: skip


def test_simulate_says_why_no_row_can_be_used(place: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fresh = tmp_path / "fresh.parquet"
    pq.write_table(pa.table({"price": [1.0, 2.0], "volume": ["a", "b"]}), fresh)
    result = headgate(place, "simulate", "ticks", "--samples", str(fresh))
    assert result.returncode == 1
    assert "fresh.parquet; volume is not a number (2)" in result.stderr


def test_a_damaged_plan_is_refused(place: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(place, tmp_path / "copy")
    for payload in (tmp_path / "copy" / "home" / "plans" / "ticks" / "payloads").glob("*.bin"):
        payload.write_bytes(payload.read_bytes()[:-3])
    shown = headgate(tmp_path / "copy", "show", "ticks")
    assert shown.returncode == 4
    assert "does not match the digest" in shown.stderr
    assert headgate(tmp_path / "copy", "verify", "ticks").returncode == 4


def test_an_unwritable_home_is_a_store_error(place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = headgate(place, "plan", "ticks", HEADGATE_HOME=str(tmp_path / "file"))
    assert result.returncode == 5
    assert "Traceback" not in result.stderr


def test_streams_commands(place: Path, tmp_path: Path) -> None:
    assert json.loads(headgate(place, "streams", "list", "--json").stdout)[0]["stream"] == "ticks"
    assert "regions" in headgate(place, "streams", "show", "ticks").stdout
    good = headgate(place, "streams", "check")
    assert good.returncode == 0
    assert "ok (ticks, sifter)" in good.stdout
    bad = tmp_path / "bad.yaml"
    bad.write_text(STREAM.replace("[0, 100]", "[100, 0]"), encoding="utf-8")
    result = headgate(place, "streams", "check", str(bad))
    assert result.returncode == 1
    assert f"{bad}:5: attributes[0]" in result.stderr
    bad.write_text(STREAM.replace("  inline:", "  file: absent.jsonl\n  inline:"), encoding="utf-8")
    result = headgate(place, "streams", "check", str(bad))
    assert result.returncode == 1
    assert f"{bad}:8: queries.file must be a file beside the definition" in result.stderr
    bad.with_name("absent.jsonl").write_text("")
    assert headgate(place, "streams", "check", str(bad)).returncode == 0


def test_a_definition_is_shown_with_what_every_field_means(place: Path) -> None:
    shown = " ".join(headgate(place, "streams", "show", "ticks").stdout.split())
    assert "landing landing/ticks Folder or URL" in shown
    for field in ("settle_s", "holdout_by", "valid_for_s", "versions", "fairness_threshold"):
        assert field in shown
    network = headgate(place, "streams", "show", "requests", HEADGATE_STREAMS=str(DEMOS)).stdout
    assert "  - {id: edge, capacity: 0.42, parent: null}" in network  # what is long is YAML below


def test_rates_are_a_load_of_show_and_simulate(tmp_path: Path) -> None:
    publish_example(tmp_path / "home", DEMOS / "requests.yaml")
    streams = {"HEADGATE_STREAMS": str(DEMOS)}
    rates = {"images": 380.0, "icons": 100.0, "shuttle": 0.0, "history": 90.0, "cgi": 40.0,
             "other": 180.0}  # fmt: skip
    at = ",".join(f"{name}={rate:g}" for name, rate in reversed(rates.items()))
    shown = json.loads(headgate(tmp_path, "show", "requests", "--at", at, "--json").stdout)
    assert shown["load"] == rates
    assert all(0 < drop <= 1 for drop in shown["setting"].values())
    assert shown["setting"]
    table = headgate(tmp_path, "show", "requests", "--at", at).stdout
    assert "setting at images=380,icons=100,shuttle=0" in table
    tried = headgate(tmp_path, "simulate", "requests", "--at", at, "--at", "0.4", "--loads", "0.6",
                     "--json", **streams)  # fmt: skip
    assert tried.returncode == 0, tried.stderr
    rows = json.loads(tried.stdout)
    assert [row["load"] for row in rows] == [rates, 0.4, 0.6]
    assert all(row["random_quality"] < row["quality"] <= 1 for row in rows)
    assert "images=380,icons=100" in headgate(tmp_path, "simulate", "requests", "--at", at,
                                              **streams).stdout  # fmt: skip
    half = headgate(tmp_path, "show", "requests", "--at", "images=1")
    assert (half.returncode, "missing: 'icons'" in half.stderr) == (1, True)


@pytest.mark.parametrize("stream", ["ticks", "fleet", "sensors", "news", "requests"])
def test_the_setting_of_every_family_can_be_shown(tmp_path: Path, stream: str) -> None:
    home = tmp_path / "home"
    publish_example(home, DEMOS / f"{stream}.yaml")
    shown = headgate(tmp_path, "show", stream, "--at", "0.4")
    assert shown.returncode == 0, shown.stderr
    assert "setting at 0.4" in shown.stdout
    assert len(shown.stdout.splitlines()) < 60
    setting = json.loads(headgate(tmp_path, "show", stream, "--at", "0.4", "--json").stdout)
    assert setting["setting"]


def publish_example(home: Path, path: Path) -> None:
    """Publish a small plan of the stream that ``path`` defines, made from its demo's samples."""
    from upath import UPath

    from planning import families
    from planning.artifacts import SigningKey, Store, TrustedKeys
    from planning.samples import read_columns
    from planning.streams import load

    definition = load(path)
    family = families.family(definition.family)
    landed = UPath(home / "landing")
    family.room("demo").land(landed, 0, definition)
    samples = read_columns(landed, definition.sample_columns)
    statistics = family.room("statistics").build(samples, definition)
    plan = family.room("planner").plan(statistics, definition)
    signer = SigningKey.load_or_create(home / "keys")
    Store(home / "plans", TrustedKeys.load(home / "keys")).publish(
        definition.stream, plan, family=family.name, signer=signer,
        created_at="2026-01-02T03:04:05Z",
    )  # fmt: skip


def test_every_command_has_help_with_an_example(place: Path) -> None:
    for command in ("plan", "simulate", "show", "history", "diff", "rollback", "verify", "warm",
                    "streams list", "streams check", "streams show"):  # fmt: skip
        shown = headgate(place, *command.split(), "--help")
        assert shown.returncode == 0
        assert f"Example: headgate {command}" in shown.stdout


def checked_with(folder: Path, samples: str) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Return a definition with a mistake below ``samples``, and what ``streams check`` said."""
    (folder / "streams").mkdir()
    file = folder / "streams" / "ticks.yaml"
    file.write_text(f"{STREAM}samples:\n  {samples}\n", encoding="utf-8")
    result = headgate(folder, "streams", "check")
    assert result.returncode == 1
    return file, result


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        ("tuple", "must be one of operators, pairs, positions, reports, tuples, got 'tuple'; did"),
        ("checkpoint", "correct the name, or add expectations/checkpoint.py with a"),
        ("positions", "attributes of stream ticks must name x, y for the expectations 'pos"),
    ],
)
def test_a_wrong_suite_of_expectations_is_found_before_spark(
    tmp_path: Path, suite: str, message: str
) -> None:
    file, result = checked_with(tmp_path, f"expectations: {suite}")
    assert f"{file}:13: samples.expectations" in result.stderr
    assert message in result.stderr
    assert "ok" not in result.stdout


def test_an_age_limit_needs_a_column_to_look_at(tmp_path: Path) -> None:
    file, result = checked_with(tmp_path, "max_age_s: 60")
    assert f"{file}:13: samples.max_age_s must be given with samples.time_column" in result.stderr
    with file.open("a", encoding="utf-8") as more:
        more.write("  time_column: at\n")
    assert headgate(tmp_path, "streams", "check").returncode == 0
