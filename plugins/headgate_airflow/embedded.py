"""Airflow on embedded defaults: once through the demo streams, or up until stopped.

``python -m headgate_airflow.embedded run`` lands a batch of demo samples per demo stream, starts
Airflow, triggers the planning DAGs, waits for them, stops Airflow and tries the published plans.
``up`` starts Airflow with its UI and stays. Everything is kept below ``var/``.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from upath import UPath

from headgate_airflow.local import (
    USER,
    LocalAirflow,
    LocalAirflowError,
    free_port,
    is_free,
    wait_until,
)
from headgate_airflow.rest import Rest, RestError
from planning import families
from planning.artifacts import SigningKey
from planning.errors import PlanningError
from planning.home import Home
from planning.streams import StreamDefinition, load_folder

START_S = 180.0
RUN_S = 900.0
POLL_S = 1.0
LOG_LINES = 25
UI_PORT = 8080
SLOW_S = 6.0
SKIPPING = "Skipping task."
DELIBERATE = "AirflowFailException: "
SHORT_GRACE_S = 3.0  # nothing is running that needs time to end
WORDS = {
    "running": "is running",
    "success": "done",
    "failed": "FAILED",
    "up_for_retry": "failed, will be tried again",
    "skipped": "skipped",
}
FINAL = ("success", "failed", "skipped", "upstream_failed", "removed")


@dataclass
class Progress:
    """One line per change, with the seconds since the start."""

    say: Callable[[str], None] = lambda text: print(text, flush=True)
    started: float = field(default_factory=time.monotonic)

    def __call__(self, text: str) -> None:
        """Print one line."""
        self.say(f"[{time.monotonic() - self.started:5.1f} s] {text}")


@dataclass
class Watched:
    """One run that is being waited for."""

    definition: StreamDefinition
    run_id: str
    triggered: datetime
    seen: dict[str, str] = field(default_factory=dict)
    since: float = 0.0
    state: str = "queued"

    @property
    def dag_id(self) -> str:
        """The DAG of the run."""
        return dag_id(self.definition)

    @property
    def key(self) -> tuple[str, str]:
        """What distinguishes the run from all others."""
        return self.dag_id, self.run_id

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self.state in ("success", "failed")


def dag_id(definition: StreamDefinition) -> str:
    """Return the name of the stream's planning DAG."""
    return f"plan_{definition.stream}"


def demo_streams(folder: Path) -> list[StreamDefinition]:
    """Return the demo streams of a folder of definitions."""
    good, bad = load_folder(folder)
    for error in bad:
        print(f"headgate: left out, because the definition has mistakes:\n{error}", file=sys.stderr)
    demos = [definition for definition in good if definition.demo]
    if not demos:
        raise LocalAirflowError(
            f"{folder} has no demo stream; mark at least one definition with demo: true"
        )
    return demos


def set_up(airflow: LocalAirflow) -> Home:
    """Return Airflow's home with a signing key in it, so that nodes can trust it from the start."""
    home = Home.at(airflow.home)
    SigningKey.load_or_create(home.keys)
    return home


def land_demo(home: Home, definition: StreamDefinition) -> None:
    """Land the next batch of generated samples of a demo stream."""
    folder: UPath = home.resolve(definition.landing)
    folder.mkdir(parents=True, exist_ok=True)
    batch = sum(1 for _ in folder.iterdir())
    families.family(definition.family).room("demo").land(folder, batch, definition)


def watch(airflow: LocalAirflow, rest: Rest, runs: Sequence[Watched], progress: Progress) -> None:
    """Show what the runs do until all of them have ended."""
    end = time.monotonic() + RUN_S
    while not all(run.ended for run in runs):
        airflow.check_alive()
        if time.monotonic() > end:
            raise LocalAirflowError(
                f"the planning runs took more than {RUN_S:.0f} s; see {airflow.logs}"
            )
        time.sleep(POLL_S)
        _look(rest, {run.key: run for run in runs if not run.ended}, progress)


def _look(rest: Rest, runs: Mapping[tuple[str, str], Watched], progress: Progress) -> None:
    """Fetch the state of the runs, and report what is new."""
    going = set()
    for task in rest.tasks_since(min(run.triggered for run in runs.values())):
        run = runs.get((task["dag_id"], task["dag_run_id"]))
        if run is None:
            continue
        if task["state"] not in FINAL:
            going.add(run.key)
        _tell(rest, run, task, progress)
    for key in sorted(runs.keys() - going):
        runs[key].state = rest.state(*key)


def _tell(rest: Rest, run: Watched, task: dict[str, Any], progress: Progress) -> None:
    """Report the state of one task, if it is new."""
    name, state = task["task_id"], task["state"] or ""
    if state == run.seen.get(name) or state not in WORDS:
        return
    if state == "running":
        # Most stages end before a line about their start would help.
        run.since = run.since or time.monotonic()
        if time.monotonic() - run.since < SLOW_S:
            return
    run.seen[name] = state
    run.since = run.since if state == "running" else 0.0
    more = ""
    if state == "success":
        more = f" in {task.get('duration') or 0.0:.1f} s"
    elif state == "skipped":
        more = _reason(rest, run, task)
    progress(f"{run.definition.stream}: {name} {WORDS[state]}{more}")


def _reason(rest: Rest, run: Watched, task: dict[str, Any]) -> str:
    """Say why a task skipped itself; nothing if it was skipped because an earlier one was."""
    if not task["try_number"]:
        return ""
    lines = rest.log(run.dag_id, run.run_id, task["task_id"], task["try_number"])
    reasons = [line.removeprefix(SKIPPING) for line in lines if line.startswith(SKIPPING)]
    return f":{reasons[-1]}" if reasons else ""


def explain_failure(rest: Rest, run: Watched) -> str:
    """Return why a task of the run failed: its message, or the end of its log."""
    for task in rest.tasks(run.dag_id, run.run_id):
        if task["state"] == "failed":
            name = task["task_id"]
            lines = rest.log(run.dag_id, run.run_id, name, task["try_number"])
            return f"\n{run.definition.stream}: {name} failed: {_cause(lines)}\n"
    return f"\n{run.definition.stream} failed before any task did\n"


def _cause(log: list[str]) -> str:
    """Return the message of a deliberate failure, else the end of the log without its chatter.

    >>> _cause(["INFO Spark starts", "AirflowFailException: too few rows", "::endgroup::"])
    'too few rows'
    """
    told = [line.removeprefix(DELIBERATE) for line in log if line.startswith(DELIBERATE)]
    if told:
        return told[-1]
    kept = [line for line in log if " INFO " not in line and not line.startswith("::")]
    return "\n    ".join(["the end of its log:", *kept[-LOG_LINES:]])


def plan_once(airflow: LocalAirflow, streams: Sequence[StreamDefinition], say: Progress) -> int:
    """Run the planning DAG of every stream once, through Airflow; return how many failed."""
    airflow.check_java()
    home = set_up(airflow)
    for definition in streams:
        land_demo(home, definition)
        say(f"{definition.stream}: a batch of demo samples landed")
    rest = Rest(airflow.url, USER, airflow.password)
    say("Airflow starts")
    airflow.migrate()
    # No dag-processor: the DAGs are written to the database once, which is quicker.
    airflow.start(("api-server", "scheduler"))
    airflow.reserialize()
    wait_until(rest.is_up, airflow, START_S, "the start of Airflow")
    runs = []
    for definition in streams:
        rest.end_active_runs(dag_id(definition))
        now = datetime.now(UTC)
        runs.append(Watched(definition, rest.trigger(dag_id(definition)), now))
        rest.pause(dag_id(definition), False)
    say(f"triggered {', '.join(run.dag_id for run in runs)}")
    watch(airflow, rest, runs, say)
    failed = [run for run in runs if run.state == "failed"]
    for run in failed:
        print(explain_failure(rest, run), file=sys.stderr)
    for definition in streams:
        rest.pause(dag_id(definition), True)
    return len(failed)


def run(airflow: LocalAirflow) -> int:
    """Plan every demo stream once and try the plans; return the exit code."""
    definitions = demo_streams(airflow.streams)
    say = Progress()
    with airflow:
        failed = plan_once(airflow, definitions, say)
        if not failed:
            return _try_plans(airflow, say)
    print(f"headgate: {failed} of {len(definitions)} streams failed; Airflow's own output is "
          f"in {airflow.logs}. Published plans stay in force.", file=sys.stderr)  # fmt: skip
    return 1


def _try_plans(airflow: LocalAirflow, say: Progress) -> int:
    """Let runtime shedders try the published plans, while Airflow stops; return the exit code."""
    say("runtime shedders try the published plans; Airflow stops")
    home, streams = str(airflow.home), str(airflow.streams)
    trial = subprocess.Popen(
        [sys.executable, "-m", "planning.trial", "--home", home, "--streams", streams]
    )
    airflow.stop(grace_s=SHORT_GRACE_S)
    return trial.wait()


def up(airflow: LocalAirflow) -> int:
    """Start Airflow with its UI and stay until interrupted."""
    definitions = demo_streams(airflow.streams)
    say = Progress()
    with airflow:
        airflow.check_java()
        say("Airflow starts")
        airflow.migrate()
        airflow.start()
        home = set_up(airflow)
        rest = Rest(airflow.url, USER, airflow.password)
        wait_until(rest.is_up, airflow, START_S, "the start of Airflow")
        for definition in definitions:
            name = dag_id(definition)
            wait_until(partial(rest.has_dag, name), airflow, START_S, f"parsing {name}")
            rest.end_active_runs(name)
            land_demo(home, definition)
            rest.trigger(name)
            rest.pause(name, False)
        names = ", ".join(dag_id(definition) for definition in definitions)
        print(
            f"\n  Airflow   {airflow.url}\n  Plans     {airflow.url}/plugin/plans\n"
            f"  login     {USER} / {airflow.password}\n  DAGs      {names} (each is running once)\n"
            f"  logs      {airflow.logs}\n\n  Ctrl-C stops everything.\n",
            flush=True,
        )
        while True:
            airflow.check_alive()
            time.sleep(1)


def _port(port: int | None, command: str) -> int:
    chosen = port or (free_port() if command == "run" else UI_PORT)
    if not is_free(chosen):
        raise LocalAirflowError(
            f"port {chosen} is taken by another program; choose another one: "
            f"make {command} PORT={chosen + 1}"
        )
    return chosen


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make termination an exception, so that what was started is also ended."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    # A shell's & makes children ignore the interrupt; Airflow's processes must not inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    yield


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m headgate_airflow.embedded``."""
    parser = argparse.ArgumentParser(prog="python -m headgate_airflow.embedded")
    parser.add_argument("command", choices=("run", "up"))
    parser.add_argument("--port", type=int, help="without: a free one to run, 8080 for up")
    parser.add_argument("--var", type=Path, default=Path("var"), help="where everything is kept")
    parser.add_argument("--streams", type=Path, default=Path("dags/streams"))
    parser.add_argument("--database", help="URL of Airflow's database; a file below var without")
    arguments = parser.parse_args(argv)
    command = {"run": run, "up": up}[arguments.command]
    with _interruptible():
        try:
            airflow = LocalAirflow(
                arguments.var.resolve(),
                _port(arguments.port, arguments.command),
                arguments.streams.resolve(),
                schedules=arguments.command == "up",
                database=arguments.database,
            )
            return command(airflow)
        except KeyboardInterrupt:
            print("\nstopped", file=sys.stderr)
            return 130
        except (PlanningError, RestError) as error:
            print(f"headgate: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
