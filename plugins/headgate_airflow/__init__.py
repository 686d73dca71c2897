"""Airflow's side of Headgate: planning DAGs, operators, a hook, a sensor, the Plans page.

A DAG file of two lines makes a planning DAG of every stream definition in a folder next to it::

    from headgate_airflow import planning_dags
    globals().update(planning_dags("streams"))

The names below are imported on first use: Airflow imports this package in every process, and most
of them need only one of its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planning import lazy

if TYPE_CHECKING:
    from headgate_airflow.dags import planning_dags
    from headgate_airflow.hooks import HeadgateHook
    from headgate_airflow.sensors import PlanInForceSensor

__all__ = ["HeadgateHook", "PlanInForceSensor", "planning_dags"]

MODULES = {"HeadgateHook": "hooks", "PlanInForceSensor": "sensors", "planning_dags": "dags"}


def __getattr__(name: str) -> Any:
    """Import what is offered under ``name``."""
    return lazy.load(__name__, name, MODULES)
