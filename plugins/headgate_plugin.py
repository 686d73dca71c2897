"""Headgate's plugin for an Airflow that has this folder, but not the package, installed.

The installed package registers the plugin by its entry point. Airflow would report a second
registration as an error, so this file then registers nothing.
"""

from __future__ import annotations

from importlib.metadata import entry_points

if not entry_points(group="airflow.plugins", name="headgate"):
    from headgate_airflow.plugin import HeadgatePlugin  # noqa: F401, Airflow looks for it here
