"""What the frame costs: a node that follows published plans, and Airflow parsing definitions."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, best_of, measure, row
from planning import families
from planning.examples import demo_definition, demo_samples, demo_store
from planning.runtime import PlanClient, RunningShedder

ITEMS = 2000
MOST_US = 20.0
MOST_IMPORT_S = 0.5
STREAMS = 30
MOST_PARSING = 1.0


def run(quick: bool) -> list[Row]:
    return measure([looking_for_a_new_plan, importing, parsing], quick)


def looking_for_a_new_plan(quick: bool) -> Row:
    """Time single items with and without the running shedder around the family's."""
    store, _ = demo_store("sifter")
    client = PlanClient(store, "ticks", node="bench")
    client.poll()
    running = RunningShedder(client, load=0.5)
    item = tuple(float(column[0]) for column in demo_samples("sifter").values())
    running.offer_one(item)
    inner = running.shedder
    assert inner is not None

    def microseconds(offer_one: Callable[[Any], Any]) -> float:
        repeats = 3 if quick else 10
        return 1e6 * best_of(repeats, lambda: [offer_one(item) for _ in range(ITEMS)]).cpu / ITEMS

    own_us, all_us = microseconds(inner.offer_one), microseconds(running.offer_one)
    return row(
        "an item costs little beside the family's own decision",
        f"< {MOST_US:g} µs",
        f"{all_us - own_us:.1f} µs (own decision {own_us:.1f} µs)",
        all_us - own_us < MOST_US,
    )


def importing(quick: bool) -> list[Row]:
    """Time the imports of a node, of each family in a separate process."""
    rows = []
    for name in families.NAMES:
        script = (
            "import time; start = time.process_time()\n"
            f"import planning.{name}.plan, planning.{name}.shedder\n"
            "import planning.artifacts, planning.runtime\n"
            "print(time.process_time() - start)"
        )
        seconds = min(_seconds(script) for _ in range(1 if quick else 3))
        rows.append(
            row(
                f"a node's imports with {name}, CPU",
                f"< {MOST_IMPORT_S:g} s",
                f"{seconds:.2f} s",
                seconds < MOST_IMPORT_S,
            )
        )
    return rows


def parsing(quick: bool) -> Row:
    """Compare parsing the DAGs of many streams with the imports that Airflow does anyway."""
    definition = demo_definition("sifter").model_dump(mode="json", exclude={"demo"})
    with tempfile.TemporaryDirectory() as folder:
        for number in range(STREAMS):
            document = {**definition, "stream": f"ticks-{number}", "queries": {}}
            Path(folder, f"ticks-{number}.yaml").write_text(json.dumps(document))
        script = (
            "import time; start = time.process_time()\n"
            "from airflow.sdk import DAG\n"
            "from airflow.providers.apache.spark.operators import spark_submit\n"
            "middle = time.process_time()\n"
            "from headgate_airflow import planning_dags\n"
            f"assert len(planning_dags({folder!r})) == {STREAMS}\n"
            "print((time.process_time() - middle) / (middle - start))"
        )
        ratio = min(_seconds(script) for _ in range(1 if quick else 3))
    return row(
        f"parsing {STREAMS} streams beside Airflow's own imports, CPU",
        f"< {MOST_PARSING:g} times",
        f"{ratio:.2f} times",
        ratio < MOST_PARSING,
    )


def _seconds(script: str) -> float:
    call = [sys.executable, "-c", script]
    return float(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
