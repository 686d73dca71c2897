"""The generated DAGs: their structure, their form, and what a broken definition does."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta

import pytest

pytestmark = pytest.mark.airflow

STAGES = ["collect", "validate", "statistics", "solve", "gate", "publish"]
HEAVY = [
    "great_expectations", "matplotlib", "numba", "ortools", "pandas", "pyspark", "scipy",
]  # fmt: skip


def test_the_demo_streams_parse_without_import_errors(repository, airflow_db, monkeypatch):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.delenv("HEADGATE_STREAMS", raising=False)
    bag = DagBag(dag_folder=str(repository / "dags"))
    assert bag.import_errors == {}
    files = sorted((repository / "dags" / "streams").glob("*.yaml"))
    assert len(bag.dags) == len(files) > 0
    assert not any("broken-definition" in dag.tags for dag in bag.dags.values())
    for dag in bag.dags.values():
        assert [task.task_id for task in dag.topological_sort()] == STAGES


def test_a_dag_file_of_two_lines_is_complete(
    repository, tmp_path, airflow_db, stream_text, monkeypatch
):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.delenv("HEADGATE_STREAMS", raising=False)
    folder = tmp_path / "dags"
    (folder / "definitions").mkdir(parents=True)
    (folder / "definitions" / "ticks.yaml").write_text(stream_text, encoding="utf-8")
    (folder / "planning.py").write_text(
        "from headgate_airflow import planning_dags\n"
        "globals().update(planning_dags('definitions'))\n"
    )
    bag = DagBag(dag_folder=str(folder))
    assert bag.import_errors == {}
    assert list(bag.dags) == ["plan_ticks"]
    assert bag.dags["plan_ticks"].fileloc == str(folder / "planning.py")


def test_a_missing_folder_of_definitions_is_reported(tmp_path, airflow_db, monkeypatch):
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.delenv("HEADGATE_STREAMS", raising=False)
    (tmp_path / "planning.py").write_text(
        "from headgate_airflow import planning_dags\nglobals().update(planning_dags('nowhere'))\n"
    )
    (error,) = DagBag(dag_folder=str(tmp_path)).import_errors.values()
    assert f"the folder of stream definitions must exist, got {tmp_path / 'nowhere'}" in error


def test_importing_the_package_loads_neither_airflow_nor_anything_heavy():
    """Every Airflow process imports it, and most need only one of its parts."""
    program = "import sys, headgate_airflow; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"airflow", "numpy", "pydantic", *HEAVY}


def test_structure_of_a_planning_dag(dag_bag):
    bag = dag_bag()
    assert bag.import_errors == {}
    assert list(bag.dags) == ["plan_ticks"]
    dag = bag.dags["plan_ticks"]
    assert [task.task_id for task in dag.topological_sort()] == STAGES
    for before, after in zip(STAGES, STAGES[1:], strict=False):
        assert dag.get_task(before).downstream_task_ids == {after}
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert dag.dagrun_timeout == timedelta(hours=4)
    assert dag.tags == {"headgate", "sifter", "quotes"}
    for task in dag.tasks:
        assert task.owner == "desk"
        assert task.retries >= 1
        assert task.retry_delay > timedelta(0)
        assert task.retry_exponential_backoff
        assert task.execution_timeout is not None
    assert "Quotes of a made-up exchange." in dag.doc_md
    assert "fairness_threshold" in dag.doc_md


def test_the_schedule_comes_from_the_definition(dag_bag, monkeypatch, streams, stream_text):
    assert dag_bag().dags["plan_ticks"].schedule == "*/15 * * * *"
    (streams / "ticks.yaml").write_text(stream_text.replace('"*/15 * * * *"', "null"))
    assert dag_bag().dags["plan_ticks"].schedule is None
    (streams / "ticks.yaml").write_text(stream_text)
    monkeypatch.setenv("HEADGATE_SCHEDULES", "off")
    assert dag_bag().dags["plan_ticks"].schedule is None


def test_publication_updates_the_stream_s_asset(dag_bag):
    dag = dag_bag().dags["plan_ticks"]
    outlets = {task.task_id: task.outlets for task in dag.tasks}
    (asset,) = outlets.pop("publish")
    assert (asset.name, asset.uri) == ("headgate_plan_ticks", "headgate://plans/ticks")
    assert not any(outlets.values())


def test_validate_links_to_the_data_docs_and_publish_to_the_plans(dag_bag):
    dag = dag_bag().dags["plan_ticks"]
    links = {
        task.task_id: [link.get_link(task, ti_key=None) for link in task.operator_extra_links]
        for task in dag.tasks
    }
    assert links.pop("validate") == ["/headgate/validation/ticks/index.html"]
    assert links.pop("publish") == ["/headgate/streams/ticks"]
    assert not any(links.values())


def test_the_form_has_the_family_s_scalar_parameters_with_their_limits(dag_bag):
    from planning.sifter.parameters import Parameters

    params = dag_bag().dags["plan_ticks"].params
    scalars = {
        name
        for name, field in Parameters.model_json_schema()["properties"].items()
        if field.get("type") in ("integer", "number", "string", "boolean")
    }
    assert {"regions", "fairness_threshold", "throttle_fraction", "partitioner"} <= scalars
    assert scalars | {"dry_run", "force"} <= set(params)
    fairness = params.get_param("fairness_threshold")
    assert fairness.value is None
    assert fairness.schema["type"] == ["null", "number"]
    assert (fairness.schema["minimum"], fairness.schema["maximum"]) == (0, 1)
    assert fairness.schema["section"] == "Parameters"
    assert "Empty: as defined (0.5)." in fairness.description
    assert params.get_param("calibrate").value is Parameters().calibrate
    assert params.get_param("dry_run").value is False
    assert params.get_param("force").schema["type"] == "boolean"


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("regions", [None, 64], [0, "many", 1.5]),
        ("throttle_fraction", [None, 0.1, 1], [0, 1.1]),
        ("partitioner", [None, "uniform_grid"], ["by_hand"]),
    ],
)
def test_the_form_enforces_the_limits(dag_bag, field, good, bad):
    from airflow.sdk.exceptions import ParamValidationError

    param = dag_bag().dags["plan_ticks"].params.get_param(field)
    for value in good:
        assert param.resolve(value) == value
    for value in bad:
        with pytest.raises(ParamValidationError):
            param.resolve(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- just\n- a list\n",
        "stream: [unclosed",
        "stream: other\nfamily: [sifter]\nattributes: 3\n",
        "stream: other\nfamily: sifter\nattributes: [{name: a, domain: [0, 1]}]\n"
        "parameters: {regions: -3, colour: red}\n",
        "\x00\x01",
    ],
    ids=["empty", "list", "syntax", "types", "parameters", "control characters"],
)
def test_a_broken_definition_shows_itself_and_spares_the_others(dag_bag, streams, text):
    (streams / "brök en.yaml").write_text(text, encoding="utf-8")
    bag = dag_bag()
    assert bag.import_errors == {}
    assert set(bag.dags) == {"plan_ticks", "plan_br_k_en"}
    broken = bag.dags["plan_br_k_en"]
    assert "broken-definition" in broken.tags
    assert broken.schedule is None
    assert "brök en.yaml" in broken.doc_md
    assert [task.task_id for task in broken.tasks] == ["definition"]


def test_the_task_of_a_broken_definition_fails_with_every_problem(dag_bag, streams):
    from airflow.sdk.exceptions import AirflowFailException

    (streams / "odd.yaml").write_text(
        "stream: odd\nfamily: sifter\nattributes: [{name: a, domain: [1, 0]}]\n"
        "gate: {holdout: 1.5}\n"
    )
    task = dag_bag().dags["plan_odd"].get_task("definition")
    with pytest.raises(AirflowFailException) as failure:
        task.execute({})
    assert "odd.yaml:3" in str(failure.value)
    assert "odd.yaml:4: gate.holdout" in str(failure.value)
    assert task.retries == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('"*/15 * * * *"', '"61 * * * *"'), "61 * * * *"),
        (('"*/15 * * * *"', '"a b c d e"'), "a b c d e"),
        (("tags: [quotes]", f"tags: [{'x' * 200}]"), "tag"),
        (("family: sifter", "family: appless"), "appless"),
    ],
    ids=["schedule out of range", "no schedule", "long tag", "no statistics app"],
)
def test_what_only_airflow_can_refuse_is_shown_too(
    dag_bag, streams, stream_text, change, told, monkeypatch
):
    from planning import families
    from planning.sifter import parameters

    monkeypatch.setattr(families, "NAMES", (*families.NAMES, "appless"))
    monkeypatch.setitem(sys.modules, "planning.appless.parameters", parameters)
    text = stream_text.replace("stream: ticks", "stream: odd").replace(*change)
    (streams / "odd.yaml").write_text(text)
    bag = dag_bag()
    assert bag.import_errors == {}
    assert set(bag.dags) == {"plan_ticks", "plan_odd"}
    assert "broken-definition" in bag.dags["plan_odd"].tags
    assert told in bag.dags["plan_odd"].doc_md


def test_two_files_may_not_claim_one_stream(dag_bag, streams, stream_text):
    (streams / "twin.yaml").write_text(stream_text)
    (streams / "aaa.yaml").write_text("stream: [")
    (streams / "tick.yaml").write_text(stream_text.replace("stream: ticks", "stream: aaa"))
    bag = dag_bag()
    assert bag.import_errors == {}
    assert set(bag.dags) == {"plan_aaa", "plan_aaa.broken", "plan_ticks", "plan_twin"}
    assert "broken-definition" in bag.dags["plan_twin"].tags
    assert "broken-definition" not in bag.dags["plan_aaa"].tags


def test_parsing_loads_nothing_heavy(repository, streams, stream_text):
    """In a fresh interpreter, after Airflow's own import, with thirty streams."""
    for number in range(30):
        text = stream_text.replace("stream: ticks", f"stream: ticks-{number}")
        (streams / f"ticks-{number}.yaml").write_text(text)
    program = (
        "import json, sys\n"
        "from airflow.dag_processing.dagbag import DagBag\n"
        "import airflow.sdk\n"
        "from airflow.sdk import DAG, Asset, BaseOperator, Param\n"
        "from airflow.providers.apache.spark.operators import spark_submit\n"
        "DAG('warm')\n"
        f"bag = DagBag(dag_folder={str(repository / 'dags')!r})\n"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "print(json.dumps([heavy, len(bag.dags), bag.import_errors]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    heavy, count, errors = json.loads(done.stdout.splitlines()[-1])
    assert errors == {}
    assert count == 31
    assert heavy == []
