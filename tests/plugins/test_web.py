"""The plugin in Airflow's own API server: log-in, plan API, pages."""

from __future__ import annotations

import hashlib
import json
import runpy

import pytest

pytestmark = pytest.mark.airflow

PATHS = [
    "/headgate/",
    "/headgate/streams/ticks",
    "/headgate/streams/ticks/diff?old=1&new=2",
    "/headgate/streams/ticks/versions/1/picture.png",
    "/headgate/validation/ticks/index.html",
    "/headgate/api/streams",
    "/headgate/api/streams/ticks/latest",
    "/headgate/api/streams/ticks/versions/1",
    "/headgate/api/streams/ticks/versions/1/plan.json",
    "/headgate/api/streams/ticks/versions/1/plan.bin",
    "/headgate/api/streams/ticks/versions/1/what-if?at=0.5",
    "/headgate/api/streams/ticks/latest?wait=30",
    "/headgate/api/streams/ticks/versions",
    "/headgate/api/streams/ticks/nodes",
    f"/headgate/api/streams/ticks/payloads/{64 * '0'}.bin",
]


@pytest.fixture(scope="module")
def server(repository):
    """Airflow's API server with the plugin, in this process."""
    from airflow.api_fastapi.app import create_app
    from airflow.utils.db import initdb
    from fastapi.testclient import TestClient

    initdb()
    with TestClient(create_app(apps="core"), base_url="http://testserver") as client:
        yield client


@pytest.fixture
def as_user(server, home):
    """Return headers that log in a user with a role."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    def headers(role: str = "admin") -> dict[str, str]:
        user = SimpleAuthManagerUser(username=role, role=role)
        return {"Authorization": f"Bearer {get_auth_manager().generate_jwt(user)}"}

    return headers


def test_the_plugin_loads_once_although_its_folder_is_airflow_s_plugins_folder(repository, server):
    from airflow import plugins_manager, settings

    assert settings.PLUGINS_FOLDER == str(repository / "plugins")
    plugins, errors = plugins_manager._get_plugins()
    assert errors == {}
    (headgate,) = [plugin for plugin in plugins if plugin.name == "headgate"]
    assert str(headgate.source).startswith("headgate==")
    (view,) = headgate.external_views
    assert (view["name"], view["destination"]) == ("Plans", "nav")
    mounted = [route.path for route in server.app.routes if "headgate" in route.path]
    assert mounted == ["/headgate"]


def test_the_folder_registers_the_plugin_only_where_the_package_is_not_installed(
    repository, monkeypatch
):
    from importlib import metadata

    from headgate_airflow.plugin import HeadgatePlugin

    path = str(repository / "plugins" / "headgate_plugin.py")
    assert "HeadgatePlugin" not in runpy.run_path(path)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    assert runpy.run_path(path)["HeadgatePlugin"] is HeadgatePlugin


def test_importing_the_plugin_loads_no_web_framework():
    """Every task imports the plugin."""
    import subprocess
    import sys

    program = (
        "import sys\n"
        "from airflow.plugins_manager import AirflowPlugin\n"
        "before = set(sys.modules)\n"
        "import headgate_airflow.plugin\n"
        "new = set(sys.modules) - before\n"
        "print([m for m in new if m.startswith(('fastapi', 'headgate_airflow.web'))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_shown_without_log_in(server, home, path):
    answer = server.get(path)
    assert answer.status_code == 401
    assert "ticks" not in answer.text


@pytest.mark.parametrize("path", ["docs", "redoc", "openapi.json"])
def test_the_schema_is_not_public(server, home, path):
    assert "ticks" not in server.get(f"/headgate/{path}").text
    assert server.get(f"/headgate/{path}").status_code in (401, 404)


def test_a_browser_without_log_in_gets_a_page_with_a_link(server, home):
    answer = server.get("/headgate/", headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert "Log in" in answer.text
    assert "/auth/login" in answer.text


def test_the_list_of_streams(server, as_user):
    (stream,) = server.get("/headgate/api/streams", headers=as_user("viewer")).json()
    assert stream["stream"] == "ticks"
    assert stream["version"] == 2
    assert stream["dag_id"] == "plan_ticks"
    assert (stream["nodes"], stream["nodes_current"]) == (2, 1)
    assert stream["nodes_by_state"] == {"behind": 1, "in force": 1}


@pytest.fixture
def planning_dags(server):
    """Planning DAGs in Airflow's database, some without a usable definition."""
    from airflow.models.dag import DagModel, DagTag
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    tags = {
        "plan_parcels": ("headgate", "sifter", "post"),
        "plan_torn": ("headgate", "broken-definition"),
        "plan_holidays": ("sifter",),
    }
    with create_session() as session:
        session.merge(DagBundleModel(name="tests"))
        session.flush()
        for dag_id, names in tags.items():
            session.add(
                DagModel(
                    dag_id=dag_id, bundle_name="tests", fileloc="planning_dags.py", is_stale=False,
                    description=f"What {dag_id} is about",
                    tags=[DagTag(name=name, dag_id=dag_id) for name in names],
                )
            )  # fmt: skip
    yield
    with create_session() as session:
        session.execute(delete(DagTag).where(DagTag.dag_id.in_(tags)))
        session.execute(delete(DagModel).where(DagModel.dag_id.in_(tags)))


def test_a_stream_without_a_plan_is_listed_if_a_dag_plans_it(server, as_user, planning_dags):
    parcels, ticks = server.get("/headgate/api/streams", headers=as_user()).json()
    assert (parcels["stream"], parcels["family"], parcels["version"]) == ("parcels", "sifter", None)
    assert ticks["stream"] == "ticks"
    html = {**as_user(), "Accept": "text/html"}
    assert "What plan_parcels is about" in server.get("/headgate/", headers=html).text
    page = server.get("/headgate/streams/parcels", headers=html)
    assert page.status_code == 200
    assert "What plan_parcels is about" in page.text


def test_the_latest_manifest_is_the_signed_file_and_can_be_cached(server, as_user, home):
    answer = server.get("/headgate/api/streams/ticks/latest", headers=as_user())
    stored = (home.plans / "ticks" / "versions" / "00000002.json").read_bytes()
    assert answer.content == stored
    tag = answer.headers["ETag"]
    assert tag == f'"{hashlib.sha256(stored).hexdigest()}"'
    headers = {**as_user(), "If-None-Match": f'"other", W/{tag}'}
    again = server.get("/headgate/api/streams/ticks/latest", headers=headers)
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["ETag"] == tag


def test_both_encodings_are_served_and_match_the_manifest(server, as_user):
    manifest = server.get("/headgate/api/streams/ticks/versions/1", headers=as_user()).json()
    for name, encoding in (("plan.json", "json"), ("plan.bin", "binary")):
        path = f"/headgate/api/streams/ticks/versions/1/{name}"
        answer = server.get(path, headers=as_user())
        digest = hashlib.sha256(answer.content).hexdigest()
        assert digest == manifest["payloads"][encoding]["digest"]
        headers = {**as_user(), "If-None-Match": f'"{digest}"'}
        assert server.get(path, headers=headers).status_code == 304


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("streams/nothing/latest", 404, "no published plan"),
        ("streams/ticks/versions/9", 404, "no such version"),
        ("streams/ticks/versions/x", 422, "positive number"),
        ("streams/ticks/latest?wait=soon", 422, "must be a number"),
        ("streams/ticks/payloads/..%2f..%2fkeys", 404, ""),
        ("streams/ticks/payloads/plan.bin", 422, "<sha256>.bin"),
        ("streams/Ticks!/latest", 422, "lower-case"),
        ("streams/ticks/versions/1/what-if?at=1.5", 422, "load must lie in [0, 1]"),
        ("streams/ticks/versions/1/what-if?at=i1=200", 422, "no function of input rates"),
    ],
)
def test_errors_are_clear_json(server, as_user, path, status, message):
    answer = server.get(f"/headgate/api/{path}", headers=as_user())
    assert answer.status_code == status
    assert message in answer.json()["detail"]


def test_a_damaged_plan_is_refused_with_its_reason(server, as_user, home):
    (payload,) = [
        p for p in (home.plans / "ticks" / "payloads").iterdir()
        if p.name.startswith(_digest(home, 2)) and p.suffix == ".bin"
    ]  # fmt: skip
    payload.write_bytes(b"nonsense")
    answer = server.get("/headgate/api/streams/ticks/versions/2/plan.bin", headers=as_user())
    assert answer.status_code == 500
    assert "does not match the digest" in answer.json()["detail"]
    page = server.get("/headgate/streams/ticks", headers={**as_user(), "Accept": "text/html"})
    assert page.status_code == 200


def _digest(home, version: int) -> str:
    manifest = json.loads((home.plans / "ticks" / "versions" / f"{version:08d}.json").read_text())
    return str(manifest["payloads"]["binary"]["digest"])


def test_rollback_publishes_a_new_version_and_an_asset_event(server, as_user, home):
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select

    with create_session() as session:
        session.execute(delete(AssetEvent))
        session.execute(delete(AssetModel))
        session.add(AssetModel(name="headgate_plan_ticks", uri="headgate://plans/ticks"))
    before = server.get("/headgate/api/streams/ticks/latest", headers=as_user()).headers["ETag"]
    body = {"to_version": 1, "reason": "version 2 loses too much"}
    answer = server.post("/headgate/api/streams/ticks/rollback", json=body, headers=as_user())
    assert answer.status_code == 201
    assert answer.json()["version"] == 3
    latest = server.get("/headgate/api/streams/ticks/latest", headers=as_user())
    assert latest.headers["ETag"] != before
    assert latest.json()["rollback_of"] == 1
    assert latest.json()["reason"] == "version 2 loses too much (admin)"
    assert _digest(home, 3) == _digest(home, 1)
    with create_session() as session:
        (event,) = session.scalars(select(AssetEvent)).all()
        assert event.extra["version"] == 3
        assert event.extra["rollback_of"] == 1


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"to_version": 2, "reason": "x"}, 422, "older than the newest"),
        ({"to_version": 7, "reason": "x"}, 404, "no version 7"),
        ({"to_version": 1}, 422, ""),
        ({"to_version": 1, "reason": ""}, 422, ""),
        ({"to_version": 1, "reason": "x", "force": True}, 422, ""),
    ],
)
def test_a_wrong_rollback_changes_nothing(server, as_user, home, body, status, message):
    answer = server.post("/headgate/api/streams/ticks/rollback", json=body, headers=as_user())
    assert answer.status_code == status
    assert message in str(answer.json()["detail"])
    assert len(list((home.plans / "ticks" / "versions").iterdir())) == 2


def test_only_json_and_only_editors_may_roll_back(server, as_user, home):
    path, body = "/headgate/api/streams/ticks/rollback", {"to_version": 1, "reason": "x"}
    assert server.post(path, json=body, headers=as_user("viewer")).status_code == 403
    assert server.post(path, json=body).status_code == 401
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {**as_user(), "Content-Type": kind}
        answer = server.post(path, content=json.dumps(body), headers=headers)
        assert answer.status_code in (415, 422)
    assert server.get(path, headers=as_user()).status_code == 405
    assert len(list((home.plans / "ticks" / "versions").iterdir())) == 2


def test_pages(server, as_user):
    html = {**as_user(), "Accept": "text/html"}
    listing = server.get("/headgate/", headers=html)
    assert "version 2" in listing.text
    assert "/dags/plan_ticks" in listing.text
    page = server.get("/headgate/streams/ticks", headers=html).text
    nodes = "1 of 2 nodes runs version 2; edge-2 runs version 1 of 2."
    for shown in ("behind", nodes, "40.0 %", "Roll back to this", "first plan of the stream"):
        assert shown in page
    reader = {**as_user("viewer"), "Accept": "text/html"}
    assert "Roll back to this" not in server.get("/headgate/streams/ticks", headers=reader).text
    diff = server.get("/headgate/streams/ticks/diff?old=1&new=2", headers=html)
    assert "region_qos" in diff.text
    picture = server.get("/headgate/streams/ticks/versions/2/picture.png?at=0.3", headers=as_user())
    assert picture.content.startswith(b"\x89PNG")
    wrong = server.get("/headgate/streams/ticks/versions/2/picture.png?at=30", headers=as_user())
    assert (wrong.status_code, "not a percentage" in wrong.text) == (422, True)


def test_a_plan_of_rates_is_asked_at_rates(server, as_user, home):
    from planning.artifacts import SigningKey
    from planning.examples import demo_plan

    plan = demo_plan("fit")
    home.store().publish("requests", plan, family="fit", signer=SigningKey.load(home.keys),
                         created_at="2026-01-05T00:00:00Z")  # fmt: skip
    rates = dict(zip(plan.network.input_ids, plan.rates_at(0.4).tolist(), strict=True))
    at = ",".join(f"{name}={rate!r}" for name, rate in rates.items())
    version = "/headgate/api/streams/requests/versions/1"
    told = server.get(f"{version}/what-if", params={"at": at}, headers=as_user()).json()
    assert told == {
        "stream": "requests", "version": 1, "load": rates,
        "predicted_quality": plan.predicted_quality(rates),
        "passed_fraction": plan.passed_fraction(rates), "drops": plan.at(rates),
    }  # fmt: skip
    assert told["drops"]
    assert server.get(f"{version}/what-if?at=0.4", headers=as_user()).json()["load"] == 0.4
    wrong = server.get(f"{version}/what-if?at=images=-1", headers=as_user())
    assert (wrong.status_code, "missing: 'icons'" in wrong.json()["detail"]) == (422, True)
    page = server.get("/headgate/streams/requests", headers={**as_user(), "Accept": "text/html"})
    half = zip(plan.network.input_ids, plan.rates_at(0.5), strict=True)
    shown = ",".join(f"{name}={rate:g}" for name, rate in half)
    assert f'id="at" value="{shown}"' in page.text
    picture = f"/headgate/streams/requests/versions/1/picture.png?at={at}"
    assert server.get(picture, headers=as_user()).content.startswith(b"\x89PNG")


def test_pages_escape_what_others_wrote(server, as_user, home):
    from planning.artifacts import SigningKey, Store, TrustedKeys

    store = Store(home.plans, TrustedKeys.load(home.keys))
    store.rollback(
        "ticks", 1, signer=SigningKey.load(home.keys), created_at="2026-01-05T00:00:00Z",
        reason="<script>alert(1)</script>",
    )  # fmt: skip
    page = server.get("/headgate/streams/ticks", headers={**as_user(), "Accept": "text/html"})
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert" in page.text


def test_data_docs_are_served_and_nothing_else(server, as_user, home):
    folder = home.validation / "ticks" / "static"
    folder.mkdir(parents=True)
    (home.validation / "ticks" / "index.html").write_text("<h1>Data Docs</h1>")
    (folder / "style.css").write_text("b {}")
    answer = server.get("/headgate/validation/ticks/index.html", headers=as_user())
    assert answer.text == "<h1>Data Docs</h1>"
    assert answer.headers["Content-Type"].startswith("text/html")
    assert answer.headers["Content-Security-Policy"] == "sandbox allow-scripts"
    style = server.get("/headgate/validation/ticks/static/style.css", headers=as_user())
    assert style.headers["Content-Type"].startswith("text/css")
    keys = [path.name for path in home.keys.iterdir() if path.is_file()]
    assert keys
    for escape in ("ticks/%2e%2e/%2e%2e/keys", "%2e%2e/keys", "ticks/..%2f..%2fkeys", "ticks"):
        for name in (*keys, ""):
            path = f"/headgate/validation/{escape}/{name}"
            assert server.get(path, headers=as_user()).status_code == 404


def test_guarantees_certificate_and_queries_are_shown(server, as_user, home, publish, guarded):
    publish(home, 0, guarded)
    published = home.store().load("guarded")
    page = server.get("/headgate/streams/guarded", headers=as_user("viewer")).text
    (dear,) = published.plan.guarantees
    assert f"down to load {dear.holds_from:.3g}" in page
    assert "query &lt;b&gt;dear&lt;/b&gt;" in page
    assert "<b>dear</b>" not in page
    assert "of the best for these" in page or "optimal for these" in page
    assert "Queries that lose most" in page
    assert page.count("loads that were checked") == 1
    below = max(0.01, dear.holds_from - 0.1)
    for load, holds in ((below, False), (1.0, True)):
        path = f"/headgate/api/streams/guarded/versions/1/what-if?at={load}"
        (told,) = server.get(path, headers=as_user("viewer")).json()["guarantees"]
        assert told["holds"] is holds
        assert told["predicted"] == pytest.approx(published.plan.kept(load)[0])
    rows = server.get("/headgate/api/streams", headers=as_user("viewer")).json()
    given = {row["stream"]: row["certificate"] for row in rows}
    assert given["guarded"] == published.manifest.certificate.status
