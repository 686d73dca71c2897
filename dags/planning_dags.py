"""One planning DAG per stream definition in the folder ``streams`` next to this file."""

from headgate_airflow import planning_dags

globals().update(planning_dags("streams"))
