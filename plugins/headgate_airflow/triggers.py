"""What the triggerer waits for on behalf of a sensor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from headgate_airflow.hooks import HeadgateHook
from planning.artifacts.fleet import judged, runs

log = logging.getLogger(__name__)


def nodes_running(hook: HeadgateHook, stream: str, version: int) -> list[str]:
    """Return the nodes that run at least ``version`` of a stream.

    A newer version counts: the node is already past the one being waited for. A silent node does
    not count: nobody knows what it runs. The log says what keeps the others.
    """
    statuses = hook.nodes(stream)
    for status in statuses:
        if not runs(status, version):
            log.info("%s %s", status.node, judged(status, version).sentence)
    return sorted(status.node for status in statuses if runs(status, version))


class PlanInForceTrigger(BaseTrigger):
    """Fires once, when enough nodes run a version of a stream."""

    def __init__(
        self, stream: str, version: int, nodes: int, headgate_conn_id: str, poke_interval: float
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow has not typed it
        self.stream = stream
        self.version = version
        self.nodes = nodes
        self.headgate_conn_id = headgate_conn_id
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments it was created with."""
        names = ("stream", "version", "nodes", "headgate_conn_id", "poke_interval")
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check repeatedly, in a thread, so that other triggers are not held up."""
        hook = HeadgateHook(self.headgate_conn_id)
        while True:
            running = await asyncio.to_thread(nodes_running, hook, self.stream, self.version)
            if len(running) >= self.nodes:
                yield TriggerEvent(running)
                return
            self.log.info("%d of %d nodes run it: %s", len(running), self.nodes, running)
            await asyncio.sleep(self.poke_interval)
