"""Register Headgate with Airflow: the Plans page, the plan API, the task links."""

from __future__ import annotations

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin
from headgate_airflow.links import DataDocsLink, PlanLink


class HeadgatePlugin(AirflowPlugin):
    """The plugin; the web application is built only in the API server."""

    name = "headgate"
    operator_extra_links: ClassVar[list[Any]] = [DataDocsLink(), PlanLink()]
    external_views: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Plans",
            "href": "/headgate/",
            "destination": "nav",
            "url_route": "plans",
        },
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The web application; imported here so that tasks never load it."""
        from headgate_airflow.web import app

        return [{"app": app, "url_prefix": "/headgate", "name": "Headgate"}]
