"""Headgate as an Airflow provider: what ``airflow providers`` lists and the UI offers."""

from __future__ import annotations

from typing import Any

INTEGRATION = "Headgate"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, in the form that Airflow prescribes."""
    return {
        "package-name": "headgate",
        "name": "Headgate",
        "description": "Plans what a data stream may lose, and follows the plans to the nodes.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["service"]}],
        "operators": _modules("operators"),
        "sensors": _modules("sensors"),
        "hooks": _modules("hooks"),
        "triggers": _modules("triggers"),
        "extra-links": [
            "headgate_airflow.links.DataDocsLink",
            "headgate_airflow.links.PlanLink",
        ],
        "connection-types": [
            {
                "connection-type": "headgate",
                "hook-class-name": "headgate_airflow.hooks.HeadgateHook",
                "hook-name": "Headgate",
                "ui-field-behaviour": {
                    "hidden-fields": [],
                    "relabeling": {"host": "API server", "schema": "Scheme"},
                    "placeholders": {"host": "airflow.example.org", "schema": "https"},
                },
                "conn-fields": {
                    "home": _field("Home", "Headgate's home: a path or any fsspec URL"),
                    "plans": _field("Plans", "Store of published plans, if not below the home"),
                    "keys": _field("Keys", "Folder of trusted keys, if not below the home"),
                },
            }
        ],
    }


def _modules(name: str) -> list[dict[str, Any]]:
    return [{"integration-name": INTEGRATION, "python-modules": [f"headgate_airflow.{name}"]}]


def _field(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}
