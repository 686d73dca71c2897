"""Headgate as an Airflow plugin: the Plans page and the plan API."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin


class HeadgatePlugin(AirflowPlugin):
    """The plugin; the web application is built only in the API server."""

    name = "headgate"
    external_views: list[dict[str, Any]] = [
        {
            "name": "Plans",
            "href": "/headgate/",
            "destination": "nav",
            "url_route": "plans",
        },
    ]

    # Airflow declares a list; a property builds it only where it is read.
    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The web application; imported here so that tasks never load it."""
        from headgate_airflow.web import app

        return [{"app": app, "url_prefix": "/headgate", "name": "Headgate"}]
