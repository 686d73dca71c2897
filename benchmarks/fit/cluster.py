"""Start the servers of a network as D-FIT processes on this machine, and drive them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import Any, Self

import msgspec

from planning.errors import PlanningError
from planning.fit.dfit.chains import chain_bound, is_chain, root_of
from planning.fit.dfit.process import Start
from planning.fit.dfit.sampling import plan_sampling
from planning.fit.dfit.servers import servers_of
from planning.fit.network import QueryNetwork

START_S = 60.0


class Cluster:
    """One process per server; all of them stop with this object, or at their deadline.

    >>> from planning.fit.demo import figure_1
    >>> with Cluster(figure_1(), 0.1, deadline_s=60) as cluster:  # doctest: +SKIP
    ...     cluster.wait_planned()
    ...     cluster.period({"i1": 1.0, "i2": 1.0})["loads"]
    {'A': 3.0, 'B': 5.0}
    """

    def __init__(
        self,
        network: QueryNetwork,
        error: float,
        *,
        deadline_s: float = 120.0,
        delays_s: dict[str, float] | None = None,
    ) -> None:
        self.network = network
        self.root = root_of(network)
        self.servers = servers_of(network)
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.addresses: dict[str, str] = {}
        self._error = error
        self._deadline_s = deadline_s
        self._delays_s = delays_s or {}
        self._periods = 0

    def __enter__(self) -> Self:
        self._sampling = plan_sampling(self.network, self._error)
        try:
            for name in self.servers:
                self._start(name, self._told(name))
            for name in self.processes:
                self._listen(name)
            for name in self.processes:
                self._introduce(name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _start(self, name: str, start: Start) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "planning.fit.dfit.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(msgspec.to_builtins(start)) + "\n")
        process.stdin.flush()
        self.processes[name] = process

    def _told(self, name: str) -> Start:
        """Return what a server is started with."""
        server, chain, bound = self.servers[name], is_chain(self.network), None
        if chain and name != self.root:
            bound = chain_bound(self.network, server, triangle=True).use.tolist()
        delay_s = self._delays_s.get(name, 0.0)
        return Start(server, self._sampling, self._deadline_s, bound, chain, delay_s)

    def _listen(self, name: str) -> None:
        process = self.processes[name]
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise PlanningError(f"server {name} did not start (exit {process.wait(5)})")
        self.addresses[name] = f"http://127.0.0.1:{int(line)}"

    def _neighbours(self, name: str) -> dict[str, Any]:
        server = self.servers[name]
        parent = None if name == self.root else self.addresses[server.parent or self.root]
        return {"parent": parent, "children": {c: self.addresses[c] for c in server.children}}

    def _introduce(self, name: str) -> None:
        self.call(name, "/neighbours", self._neighbours(name))

    def restart(self, name: str) -> None:
        """Start a server again, on another port; it introduces itself to its neighbours."""
        for pipe in (self.processes[name].stdin, self.processes[name].stdout):
            if pipe is not None:
                pipe.close()
        start = msgspec.structs.replace(self._told(name), **self._neighbours(name))
        self._start(name, start)
        self._listen(name)

    def pause(self, name: str) -> None:
        """Stop one server's process in its tracks."""
        self.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let a paused process go on."""
        self.processes[name].send_signal(signal.SIGCONT)

    def call(self, name: str, path: str, body: Any = None, timeout_s: float = 60.0) -> Any:
        """Send one request to a server and return its answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.addresses[name] + path, data)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            detail = json.load(error).get("error", "")
            raise PlanningError(f"server {name} refused {path}: {detail}") from None
        except (urllib.error.URLError, OSError) as error:
            raise PlanningError(f"server {name} does not answer {path}: {error}") from None

    def status(self, name: str) -> dict[str, Any]:
        """Return a server's status."""
        answer: dict[str, Any] = self.call(name, "/status")
        return answer

    def wait_planned(self, timeout_s: float = START_S) -> None:
        """Wait until every live server has a table and nothing more to send."""
        end = time.monotonic() + timeout_s
        settled = 0
        while settled < 2:
            alive = [n for n, p in self.processes.items() if p.poll() is None]
            done = all(self.status(name)["ready"] for name in alive)
            settled = settled + 1 if done else 0
            if time.monotonic() > end:
                raise PlanningError(f"servers did not finish their tables in {timeout_s:g} s")
            time.sleep(0.05)

    def period(self, rates: dict[str, float]) -> dict[str, Any]:
        """Drive one control period: ``loads`` as shares of capacity, and ``throughput``."""
        self._periods += 1
        answer: dict[str, Any] = self.call(
            self.root, "/rates", {"period": self._periods, "rates": rates}
        )
        return answer

    def change(self, name: str, operators: dict[str, dict[str, float]]) -> None:
        """Tell a server new costs or selectivities of its operators."""
        self.call(name, "/change", {"operators": operators})

    def kill(self, name: str) -> None:
        """Kill one server's process."""
        self.processes[name].kill()
        self.processes[name].wait(10)

    def close(self) -> None:
        """Stop all processes."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait(10)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
