"""Wait until the nodes follow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf

from headgate_airflow.hooks import HeadgateHook
from headgate_airflow.links import PlanLink
from headgate_airflow.triggers import PlanInForceTrigger, nodes_running

if TYPE_CHECKING:
    from airflow.sdk import Context


class PlanInForceSensor(BaseSensorOperator):
    """Wait until ``nodes`` nodes run ``version`` of a stream's plan, or a newer one.

    It reads the nodes' statuses: a node that has fallen silent does not count, and the log says
    why others do not follow. ``version`` defaults to the one in force when the sensor starts and
    may be a template. The task's result is the names of the nodes. With ``deferrable`` the
    triggerer waits, and no worker is occupied meanwhile.
    """

    template_fields: Sequence[str] = ("stream", "version", "headgate_conn_id")
    operator_extra_links = (PlanLink(),)
    ui_color = "#e3f1e1"

    def __init__(
        self,
        *,
        stream: str,
        nodes: int = 1,
        version: int | str | None = None,
        headgate_conn_id: str = HeadgateHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.nodes = nodes
        self.version = version
        self.headgate_conn_id = headgate_conn_id
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        """Wait here or, if deferrable and not yet satisfied, in the triggerer."""
        hook = HeadgateHook(self.headgate_conn_id)
        self.version = int(self.version) if self.version else hook.latest(self.stream)
        self.log.info("waiting for %d nodes to run version %d", self.nodes, self.version)
        if not self.deferrable:
            return super().execute(context)
        running = nodes_running(hook, self.stream, self.version)
        if len(running) >= self.nodes:
            return running
        trigger = PlanInForceTrigger(
            self.stream, self.version, self.nodes, self.headgate_conn_id, self.poke_interval
        )
        self.defer(
            trigger=trigger,
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: list[str]) -> list[str]:
        """Take over from the triggerer; return the nodes."""
        return event

    def poke(self, context: Context) -> PokeReturnValue:
        """Whether enough nodes run the version now."""
        hook = HeadgateHook(self.headgate_conn_id)
        running = nodes_running(hook, self.stream, int(self.version or 0))
        return PokeReturnValue(len(running) >= self.nodes, running)
