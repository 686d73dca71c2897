"""Buttons on a task that lead to what it made."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink, conf

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


def page(path: str) -> str:
    """Return the address of a page below the plugin's web application."""
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    return f"{base}/headgate/{quote(path)}"


class DataDocsLink(BaseOperatorLink):
    """From a validation to its Data Docs."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the Data Docs of the task's stream, newest run first."""
        return page(f"validation/{operator.stream}/index.html")  # type: ignore[attr-defined]


class PlanLink(BaseOperatorLink):
    """From a publication to the stream's plans."""

    name = "Plans"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the stream's page."""
        return page(f"streams/{operator.stream}")  # type: ignore[attr-defined]
