"""Alerts and dashboard in docs/operate: they are valid, tested, and name metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from planning import families
from planning.artifacts import SigningKey, Status, Store, TrustedKeys
from planning.examples import demo_plan, demo_samples
from planning.runtime import PlanClient, RunningShedder, SampleWriter, metrics
from planning.runtime.leases import LeasedCapacity, LeasedThrottle

FOLDER = Path(__file__).parents[1] / "docs" / "operate"
NAME = re.compile(r"\bheadgate_[a-z_]+\b")
needs_promtool = pytest.mark.skipif(
    not shutil.which("promtool"), reason="promtool (Prometheus) is not installed"
)


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> list[str]:
    """Return the dashboard's expressions, with values for Grafana's variables."""
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    texts = [target["expr"] for panel in panels for target in panel["targets"]]
    return [text.replace("$__rate_interval", "5m").replace("$", "") for text in texts]


@needs_promtool
def test_the_rules_are_valid_and_pass_their_tests() -> None:
    promtool("check", "rules", "alerts.yaml")
    promtool("test", "rules", "alerts_test.yaml")


@needs_promtool
def test_the_dashboard_s_expressions_are_valid(tmp_path: Path) -> None:
    recorded = [
        {"record": f"dashboard:{number}", "expr": text} for number, text in enumerate(expressions())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", str(file))


def test_every_alert_is_seen_to_fire_and_to_keep_quiet() -> None:
    tests = yaml.safe_load((FOLDER / "alerts_test.yaml").read_text())["tests"]
    tried = [case for test in tests for case in test["alert_rule_test"]]
    alerts = {rule["alert"] for rule in rules()}
    assert {case["alertname"] for case in tried if case["exp_alerts"]} == alerts
    assert {case["alertname"] for case in tried if not case["exp_alerts"]} == alerts


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    page = (FOLDER / "metrics.md").read_text()
    headings = {line[4:].lower(): line for line in page.splitlines() if line.startswith("### ")}
    for rule in rules():
        told = rule["annotations"]
        assert told["summary"]
        assert told["description"]
        where, _, heading = told["runbook_url"].partition("#")
        assert (FOLDER.parents[1] / where).is_file()
        assert heading in headings
    assert len(headings) == len(rules())


def test_every_metric_is_on_the_page_in_its_words() -> None:
    page = (FOLDER / "metrics.md").read_text()
    told = dict(re.findall(r"^\| `headgate_(\w+)` \| [^|]+ \| (.+) \|$", page, re.MULTILINE))
    assert told == metrics.METRICS


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The metrics and their labels in an exposition of everything there is."""
    folder = tmp_path_factory.mktemp("operate")
    signer = SigningKey.load_or_create(folder / "keys")
    store = Store(folder / "plans", TrustedKeys.of(signer))
    running = []
    for family in families.NAMES:
        store.publish(
            family, demo_plan(family), family=family, signer=signer,
            created_at="2026-01-02T03:04:05Z",
        )  # fmt: skip
        client = PlanClient(store, family, node="edge-7", memory=False)
        running.append(RunningShedder(client, load=0.5))
        client.poll()
        running[-1].offer({name: column[:100] for name, column in demo_samples(family).items()})
        store.report(family, Status(node="edge-7", at="2026-01-02T03:04:05Z"))
    writer = SampleWriter(folder / "landing", node="edge-7")
    lease = LeasedCapacity("redis://127.0.0.1:1", "fleet", member="edge-7", path=folder / "lease")
    client = PlanClient(store, "sifter", node="edge-8", memory=False)
    running.append(RunningShedder(client, LeasedThrottle(lease)))
    registry = CollectorRegistry()
    registry.register(metrics.Collector(store))
    text = generate_latest(registry).decode()
    del running, writer
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^(headgate_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def test_what_the_page_lists_is_what_there_is(shown: dict[str, set[str]]) -> None:
    page = (FOLDER / "metrics.md").read_text()
    listed = re.findall(r"^\| `(headgate_\w+)` \| ([^|]+) \|", page, re.MULTILINE)
    assert {name: set(labels.split(", ")) for name, labels in listed} == shown


def test_alerts_and_dashboard_use_metrics_that_exist(shown: dict[str, set[str]]) -> None:
    for text in [*(rule["expr"] for rule in rules()), *expressions()]:
        names = set(NAME.findall(text))
        assert names <= set(shown), f"{text} names what does not exist"
        assert names or "up{" in text
        labels = set(re.findall(r"(\w+)(?:=~|!=|=)\"", text)) - {"job"}
        for grouped in re.findall(r"\b(?:by|on) \(([\w, ]+)\)", text):
            labels |= set(grouped.split(", "))
        assert labels <= set().union(*(shown[name] for name in names)), text


def test_the_dashboard_can_be_imported() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    assert used == variables
