"""A D-FIT server process: ``python -m planning.fit.dfit.process``, with HTTP on loopback.

It reads one line of JSON from standard input (:class:`Start`), answers with its port on standard
output, and ends by itself: at its deadline, when its starter is gone, or on request.

Neighbours hear from each other by heartbeats, which carry the sender's address and life. A child
that does not answer, or has been silent for long, is planned without; the first heartbeat after
that, or one of another life, makes the parent ask for its whole table. So a server that was paused,
restarted or moved is back after a heartbeat and a table. A server that starts with its neighbours'
addresses introduces itself.

=================  ====================================================================
request            what it does
=================  ====================================================================
POST /neighbours   addresses of parent and children; planning starts
POST /table        a child's table or delta
POST /rates        one control period: rates in, drops applied, rates sent to children
POST /change       measured costs or selectivities of its operators
POST /above        in a chain: what the servers above can take
POST /alive        a neighbour's heartbeat
GET /status        table size, messages and bytes sent, load of every period
POST /stop         end
=================  ====================================================================
"""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import numpy as np

from planning.errors import InvalidInput, PlanningError
from planning.fit.dfit.controller import Delta, DFitServer
from planning.fit.dfit.sampling import Sampling
from planning.fit.dfit.servers import Server
from planning.fit.dfit.tables import Bound

NEIGHBOUR_TIMEOUT_S = 5.0
BEAT_S = 0.2
SILENT_S = 2.0
"""How long rates wait for a child that does not answer, or has not been heard of."""
RETRY_S = 0.1
ATTEMPTS = 20
COUNTERS = (
    *(f"{kind}_{what}" for kind in ("table", "rate", "beat") for what in ("messages", "bytes")),
    "rows_sent",
    "rows_removed",
    "failed_messages",
    "rebuilds",
)


class Start(msgspec.Struct, frozen=True):
    """What a process is started with: its part of the network, the sampling, how long it may run.

    ``bound`` is the feasibility triangle of a server in a chain; ``delay_s`` holds its tables back;
    ``parent`` and ``children`` are addresses, of a server that joins others which run.
    """

    server: Server
    sampling: Sampling
    deadline_s: float
    bound: list[list[float]] | None = None
    chain: bool = False
    delay_s: float = 0.0
    parent: str | None = None
    children: dict[str, str] = {}


class Process:
    """State of the process: planner, neighbours, counters, and the outbox of tables."""

    def __init__(self, start: Start) -> None:
        bound = None if start.bound is None else Bound(np.array(start.bound))
        self.planner = DFitServer(start.server, start.sampling, bound)
        self.chain = start.chain
        self.delay_s = start.delay_s
        self.parent = start.parent
        self.children = dict(start.children)
        self.address = ""
        self.life = f"{os.getpid()}-{time.time_ns()}"
        self.lives: dict[str, str] = {}
        self.heard_s: dict[str, float] = {}
        self.period = 0
        self.sending = 0  # odd while a table is on its way
        self.lock = threading.Lock()
        self.outbox: queue.Queue[bool] = queue.Queue()
        self.periods: list[dict[str, Any]] = []
        self.counters = dict.fromkeys(COUNTERS, 0)

    def neighbours(self, body: dict[str, Any]) -> dict[str, Any]:
        """Learn the neighbours' addresses; start planning if nothing is missing."""
        with self.lock:
            self.parent, self.children = body["parent"], body["children"]
            if self.planner.ready:
                self._rebuild()
        return {}

    def table(self, body: dict[str, Any]) -> dict[str, Any]:
        """Take a child's delta; ask for the whole table if its beginning is unknown."""
        delta = msgspec.convert(body["delta"], Delta)
        with self.lock:
            if not delta.full and body["child"] not in self.planner.children:
                return {"resync": True}
            self.planner.receive(body["child"], delta)
            self.heard_s[body["child"]] = time.monotonic()
            if self.planner.ready:
                self._rebuild()
        return {"resync": False}

    def alive(self, body: dict[str, Any]) -> dict[str, Any]:
        """Hear from a neighbour; ask a child for its table if that of this life is missing."""
        sender, planner = body["server"], self.planner
        with self.lock:
            if sender not in planner.server.children:
                if sender != (planner.server.parent or sender):
                    raise InvalidInput(f"server must be a neighbour, got {sender!r}")
                moved, self.parent = self.parent != body["address"], body["address"]
                if moved and planner.table is not None:
                    self.outbox.put(True)
                return {"resync": False}
            self.children[sender] = body["address"]
            self.heard_s[sender] = time.monotonic()
            if self.lives.setdefault(sender, body["life"]) != body["life"]:
                self.lives[sender] = body["life"]
                planner.children.pop(sender, None)
            known = sender in planner.children
            above = planner.use_above(sender).tolist() if self.chain and not known else None
        return {"resync": not known, "above": above}

    def beat(self) -> None:
        """Send heartbeats to the neighbours; runs in its own thread."""
        message = {"server": self.planner.server.id, "address": self.address, "life": self.life}
        while True:
            with self.lock:
                neighbours = [self.parent, *self.children.values()]
            for address in filter(None, neighbours):
                sending = self.sending
                reply = self._post(address, "/alive", message, "beat", SILENT_S / 4)
                on_its_way = sending % 2 or sending != self.sending or not self.outbox.empty()
                if reply is not None and reply["resync"] and not on_its_way:
                    if reply["above"] is not None:
                        self.above({"use": reply["above"]})
                    self.outbox.put(True)
            time.sleep(BEAT_S)

    def change(self, body: dict[str, Any]) -> dict[str, Any]:
        """Take new measurements of its operators; in a chain, tell the child what they leave."""
        with self.lock:
            self.planner.change(body["operators"])
            self._rebuild()
        self._tell_children()
        return {}

    def above(self, body: dict[str, Any]) -> dict[str, Any]:
        """Learn what the servers above can take; rows left out until now may be needed."""
        with self.lock:
            new = self.planner.learn(np.array(body["use"]))
            if new:
                self._rebuild()
        if new:
            self._tell_children()
        return {}

    def _tell_children(self) -> None:
        """In a chain, tell the children what this server and those above can take."""
        if self.chain:
            for child, address in self.children.items():
                use = self.planner.use_above(child).tolist()
                self._post(address, "/above", {"use": use}, "table")

    def _rebuild(self) -> None:
        self.planner.rebuild()
        self.counters["rebuilds"] += 1
        if self.parent is not None:
            self.outbox.put(False)

    def rates(self, body: dict[str, Any]) -> dict[str, Any]:
        """Run one control period with the drops decided in the last, then decide anew."""
        rates = {str(k): float(v) for k, v in body["rates"].items()}
        with self.lock:
            late, self.period = body["period"] < self.period, max(body["period"], self.period)
            load, sent, throughput = self.planner.flow(rates)
            children = dict(self.children)
            down = set(self.planner.down)
        below = {}
        for child, flow in sent.items():
            if child in down or late:  # a request from before it was paused: nobody waits for it
                continue
            reply = None
            if time.monotonic() - self.heard_s.get(child, -math.inf) < SILENT_S:
                message = {"period": body["period"], "rates": flow}
                reply = self._post(children[child], "/rates", message, "rate", SILENT_S)
            if reply is None:
                self._lost(child)
            else:
                below.update(reply["loads"])
                throughput += reply["throughput"]
        with self.lock:
            if not late:
                self.planner.decide(rates)
            server = self.planner.server
            self.periods.append({"period": body["period"], "load": load / server.capacity})
        return {"loads": {server.id: load / server.capacity, **below}, "throughput": throughput}

    def _lost(self, child: str) -> None:
        """Plan without a child that does not answer; its table comes back with it."""
        with self.lock:
            if child not in self.planner.down:
                self.planner.down.add(child)
                self.planner.children.pop(child, None)
                self._rebuild()

    def send_tables(self) -> None:
        """Send deltas to the parent, one after the other; runs in its own thread."""
        while True:
            full = self.outbox.get()
            self.sending += 1
            if self.delay_s:
                time.sleep(self.delay_s)
            with self.lock:
                delta = self.planner.delta(full=full)
                message = {"child": self.planner.server.id, "delta": msgspec.to_builtins(delta)}
                parent = self.parent
            self.counters["rows_sent"] += len(delta.added)
            self.counters["rows_removed"] += len(delta.removed)
            for _ in range(ATTEMPTS):
                reply = self._post(parent or "", "/table", message, "table")
                if reply is not None:
                    if reply["resync"]:
                        self.outbox.put(True)
                    break
                time.sleep(RETRY_S)
            else:
                self.outbox.put(True)
            self.sending += 1

    def _post(
        self, address: str, path: str, body: Any, kind: str, timeout_s: float = NEIGHBOUR_TIMEOUT_S
    ) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{address}{path}", data, method="POST")
        self.counters[f"{kind}_messages"] += 1
        self.counters[f"{kind}_bytes"] += len(data)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as reply:
                return json.load(reply)
        except (urllib.error.URLError, OSError, ValueError):
            self.counters["failed_messages"] += 1
            return None

    def status(self) -> dict[str, Any]:
        """Return what a monitor wants to know."""
        with self.lock:
            table = self.planner.table
            return {
                "server": self.planner.server.id,
                "rows": 0 if table is None else table.count,
                "ready": table is not None and self.planner.ready and self.outbox.empty(),
                "children": sorted(self.planner.children),
                "down": sorted(self.planner.down),
                "drops": self.planner.drops,
                "scale": self.planner.scale,
                "periods": self.periods,
                **self.counters,
            }


class Handler(BaseHTTPRequestHandler):
    """Routes requests to the process."""

    process: Process
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer /status."""
        self._answer(200, self.process.status())

    def do_POST(self) -> None:
        """Answer everything else; an error is an answer, too."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path == "/stop":
            self._answer(200, {})
            os._exit(0)
        routes = {
            "/neighbours": self.process.neighbours,
            "/table": self.process.table,
            "/change": self.process.change,
            "/above": self.process.above,
            "/rates": self.process.rates,
            "/alive": self.process.alive,
        }
        try:
            self._answer(200, routes[self.path](body))
        except (PlanningError, KeyError, TypeError, ValueError) as error:
            self._answer(400, {"error": f"{type(error).__name__}: {error}"})

    def _answer(self, code: int, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        with suppress(OSError):  # whoever asked may be gone
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep standard error quiet."""


def _end_at(deadline_s: float, starter: int) -> None:
    """End the process at its deadline, or when its starter is gone."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end and os.getppid() == starter:
        time.sleep(0.2)
    os._exit(0)


def main() -> None:
    """Run one server until its deadline."""
    starter = os.getppid()
    start = msgspec.convert(json.loads(sys.stdin.readline()), Start)
    threading.Thread(target=_end_at, args=(start.deadline_s, starter), daemon=True).start()
    process = Process(start)
    threading.Thread(target=process.send_tables, daemon=True).start()
    handler = type("BoundHandler", (Handler,), {"process": process})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    httpd.daemon_threads = True
    process.address = f"http://127.0.0.1:{httpd.server_address[1]}"
    threading.Thread(target=process.beat, daemon=True).start()
    print(httpd.server_address[1], flush=True)
    httpd.serve_forever()


if __name__ == "__main__":
    main()
