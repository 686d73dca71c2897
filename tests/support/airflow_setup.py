"""Airflow for tests: settings that must be in the environment before Airflow is imported."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
STREAM = """\
stream: ticks
family: sifter
description: Quotes of a made-up exchange.
owner: desk
tags: [quotes]
schedule: "*/15 * * * *"
attributes:
  - {name: price, domain: [0, 100]}
  - {name: volume, domain: [0, 10]}
queries:
  inline:
    - {name: cheap, ranges: {price: [0, 40]}}
    - {name: lively, ranges: {price: [30, 80], volume: [5, 10]}}
parameters: {regions: 16, partitioner: uniform_grid}
samples: {settle_s: 0}
"""


def prepare() -> Path:
    """Point Airflow to a temporary folder; the same one for the whole session."""
    known = os.environ.get("HEADGATE_TEST_FOLDER")
    if known:
        return Path(known)
    if "airflow" in sys.modules:
        raise RuntimeError("Airflow was imported before its test settings were made")
    folder = Path(tempfile.mkdtemp(prefix="headgate-airflow-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ.update(
        HEADGATE_TEST_FOLDER=str(folder),
        AIRFLOW_HOME=str(folder / "airflow"),
        AIRFLOW__CORE__UNIT_TEST_MODE="True",
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_FOLDER=str(REPOSITORY / "dags"),
        AIRFLOW__CORE__PLUGINS_FOLDER=str(REPOSITORY / "plugins"),
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{folder}/airflow.db",
        AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
        AIRFLOW__API_AUTH__JWT_SECRET="a secret for tests, long enough for HMAC with SHA-512 " * 2,
    )
    return folder
