"""The Plans page in a real browser."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

CHROMIUM = "/usr/bin/chromium"
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path(CHROMIUM).exists(),
        reason=f"{CHROMIUM} is absent; install it (Debian: apt-get install chromium)",
    ),
]


@pytest.fixture(scope="module")
def published(airflow, publish, orders) -> None:
    """Two versions of the stream orders."""
    from planning.home import Home

    for batch in range(2):
        publish(Home.at(airflow.home), batch, orders)


@pytest.fixture
def tab(airflow, published):
    """A browser whose user is logged in."""
    from playwright.sync_api import sync_playwright

    airflow.rest.call("GET", "/headgate/api/streams")  # logs in
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.add_cookies([{"name": "_token", "value": airflow.rest.token, "url": airflow.url}])
        tab = context.new_page()
        tab.problems = []
        tab.on("pageerror", lambda error: tab.problems.append(str(error)))
        tab.on("console", lambda m: m.type == "error" and tab.problems.append(m.text))
        yield tab
        browser.close()


def test_the_plans_page_is_in_airflow_s_navigation(airflow, tab):
    tab.goto(f"{airflow.url}/plugin/plans")
    frame = tab.frame_locator("iframe")
    frame.get_by_role("heading", name="Plans").wait_for()
    row = frame.get_by_role("row").filter(has_text="orders")
    assert "version 2" in row.inner_text()
    assert "sifter" in row.inner_text()
    row.get_by_role("link", name="orders").click()
    frame.get_by_role("heading", name="What if the load changes?").wait_for()


def is_picture(answer, load: float) -> bool:
    """Whether an answer is the plan's picture at a load; the page's first one may come late."""
    address, _, shown = answer.url.rpartition("=")
    return address.endswith("picture.png?at") and float(shown) == load


def test_sliding_the_load_shows_what_it_costs(airflow, tab, orders):
    from planning.artifacts import Store, TrustedKeys
    from planning.home import Home

    home = Home.at(airflow.home)
    published = Store(home.plans, TrustedKeys.load(home.keys)).load("orders")
    tab.goto(f"{airflow.url}/headgate/streams/orders")
    for load in (0.2, 1.0):
        with tab.expect_response(lambda answer, load=load: is_picture(answer, load)) as picture:
            tab.locator("#load").fill(str(load))
        assert picture.value.status == 200
        shown = float(tab.locator("#quality").inner_text())
        assert shown == pytest.approx(published.promised(load).quality, abs=1e-4)
    assert tab.problems == []


def test_sliding_the_load_shows_which_guarantees_hold(airflow, tab, publish, guarded):
    from planning.home import Home

    home = Home.at(airflow.home)
    publish(home, 0, guarded)
    plan = home.store().load("guarded").plan
    tab.goto(f"{airflow.url}/headgate/streams/guarded")
    cell, below = tab.locator("td.kept"), round(plan.guarantees[0].holds_from - 0.1, 2)
    for load, words in ((below, "short"), (0.99, "")):
        tab.locator("#load").fill(str(load))
        shown = cell.inner_text()
        assert float(shown.split()[0]) == pytest.approx(plan.kept(load)[0], abs=1e-3)
        assert shown.endswith(words)
        assert ("short" in (cell.get_attribute("class") or "").split()) is bool(words)
    assert tab.locator("#certificate").is_visible()
    assert tab.problems == []


def test_asking_at_a_load(airflow, tab):
    from planning.artifacts import SigningKey
    from planning.examples import demo_plan
    from planning.home import Home

    home, plan = Home.at(airflow.home), demo_plan("fit")
    home.store().publish("requests", plan, family="fit", signer=SigningKey.load(home.keys),
                         created_at="2026-01-05T00:00:00Z")  # fmt: skip
    tab.goto(f"{airflow.url}/headgate/streams/requests")
    example = dict(zip(plan.network.input_ids, plan.rates_at(0.5), strict=True))
    asked = tab.get_by_role("textbox", name="At")
    assert asked.input_value() == ",".join(f"{i}={rate:g}" for i, rate in example.items())
    rates = {name: 100.0 for name in example}
    asked.fill(",".join(f"{name}=100" for name in example))
    asked.press("Enter")
    tab.get_by_text("Predicted quality at images=100").wait_for()
    shown = float(tab.locator("#quality").inner_text())
    assert shown == pytest.approx(plan.predicted_quality(rates), abs=1e-4)
    for arc, share in plan.at(rates).items():
        assert f"{arc} {100 * share:.1f} %" in tab.locator("#drops").inner_text()
    assert tab.problems == []
    asked.fill("images=100")
    tab.get_by_role("button", name="Show", exact=True).click()
    tab.get_by_role("alert").filter(has_text="missing: 'icons'").wait_for()
    tab.goto(f"{airflow.url}/headgate/streams/orders")
    assert asked.input_value() == "0.5"
    asked.fill("0.25")
    asked.press("Enter")
    tab.get_by_text("Predicted quality at 0.25").wait_for()
    assert tab.locator("#load").input_value() == "0.25"
    assert [p for p in tab.problems if "422" not in p] == []  # the browser notes refused requests


def test_silent_and_refusing_nodes_are_on_top(airflow, tab):
    from planning.artifacts import Status
    from planning.home import Home

    store, evil = Home.at(airflow.home).store(), "<b id=evil>rot</b>"
    at = "2026-01-03T00:00:00Z"
    for node, said in {
        "edge-1": {"version": 2, "counters": {"offered": 10, "kept": 4}},
        "edge-2": {"version": 2, "heartbeat_s": 30.0},
        "edge-3": {"version": 1, "refused": {2: evil}},
    }.items():
        store.report("orders", Status(node=node, at=at, **said))
    heard = time.time() - 240
    os.utime(store.folder("orders", "nodes") / "edge-2.json", (heard, heard))
    tab.goto(f"{airflow.url}/headgate/")
    row = tab.get_by_role("row").filter(has_text="orders").inner_text()
    for shown in ("1 of 3", "1 silent", "1 refuses"):
        assert shown in row
    tab.goto(f"{airflow.url}/headgate/streams/orders")
    summary = "1 of 3 nodes runs version 2; edge-2 was last heard 4 minutes ago; edge-3 refuses"
    tab.get_by_text(summary).wait_for()
    rows = [row.inner_text() for row in tab.locator("#nodes > tbody > tr").all()]
    assert [row.split()[0] for row in rows] == ["edge-2", "edge-3", "edge-1"]
    assert "edge-2 was last heard 4 minutes ago" in rows[0]
    assert f"edge-3 refuses version 2: {evil}" in rows[1]
    assert "40.0 %" in rows[2]
    assert tab.locator("#evil").count() == 0
    offered = tab.get_by_role("cell", name="offered", exact=True)
    assert not offered.is_visible()
    tab.get_by_text("counters", exact=True).first.click()
    offered.wait_for()
    assert tab.problems == []


def test_rolling_back_asks_first_and_publishes(airflow, tab):
    tab.goto(f"{airflow.url}/headgate/streams/orders")
    tab.get_by_role("button", name="Roll back to this").last.click()
    dialog = tab.get_by_role("dialog")
    go = dialog.get_by_role("button", name="Roll back")
    assert "version 1" in dialog.inner_text()
    assert go.is_disabled()
    dialog.get_by_label("Reason").fill("trying the button")
    with tab.expect_navigation():
        go.click()
    tab.get_by_text("rolled back to version 1: trying the button (admin)").wait_for()
    latest = airflow.rest.call("GET", "/headgate/api/streams/orders/latest")
    assert (latest["version"], latest["rollback_of"]) == (3, 1)
    assert tab.problems == []


def test_comparing_two_versions(airflow, tab):
    tab.goto(f"{airflow.url}/headgate/streams/orders")
    tab.locator("select[name=old]").select_option("1")
    tab.locator("select[name=new]").select_option("2")
    tab.get_by_role("button", name="Show differences").click()
    tab.get_by_role("heading", name="orders: version 1 → 2").wait_for()
    assert tab.get_by_role("row").filter(has_text="frequency").count() == 1
    assert tab.problems == []


def test_a_script_in_the_data_docs_cannot_act_as_the_reader(airflow, tab):
    from planning.home import Home

    folder = Home.at(airflow.home).validation / "orders"
    folder.mkdir(parents=True, exist_ok=True)
    script = """
        const said = document.getElementById("said");
        fetch("/headgate/api/streams").then(
            answer => answer.text().then(text => { said.textContent = answer.status + text; }),
            error => { said.textContent = "refused"; });
    """
    (folder / "script.html").write_text(f"<p id=said></p><script>{script}</script>")
    tab.goto(f"{airflow.url}/headgate/validation/orders/script.html")
    tab.wait_for_function("document.getElementById('said').textContent")
    assert tab.inner_text("#said") == "refused"
