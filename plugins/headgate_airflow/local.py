"""Airflow inside a folder: its environment, its processes, and their end.

Everything lives below one folder (``var`` of the checkout): the metadata database, logs, secrets.
Each component runs in a session of its own, because Airflow's own ``standalone`` leaves children
behind when it is stopped; a list of what was started lets the next start clear away what a killed
predecessor left behind.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO

import psutil

from headgate_airflow.java import java_problem
from headgate_airflow.places import package_folder
from planning.errors import PlanningError

HOST = "127.0.0.1"
USER = "admin"
GRACE_S = 8.0
DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
SMALL_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
COMPONENTS = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}


class LocalAirflowError(PlanningError):
    """Airflow cannot be started here; the message says why and what to do."""


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether ``port`` can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


@dataclass
class LocalAirflow:
    """One Airflow below ``folder``; use it as a context manager, so that nothing stays running.

    Its DAG files are those in ``dags`` and its stream definitions those in ``streams``, by default
    the ones in the working directory. Its metadata database is a file below ``folder``, unless
    ``database`` is the URL of another.
    """

    folder: Path
    port: int
    streams: Path = field(default_factory=lambda: Path("dags/streams").absolute())
    dags: Path = field(default_factory=lambda: Path("dags").absolute())
    schedules: bool = True
    database: str | None = None
    processes: dict[str, psutil.Popen] = field(default_factory=dict)
    _lock: IO[str] | None = None

    @property
    def url(self) -> str:
        """Address of the UI and of the API."""
        return f"http://{HOST}:{self.port}"

    @property
    def home(self) -> Path:
        """Headgate's home."""
        return self.folder / "headgate"

    @property
    def logs(self) -> Path:
        """Folder of the components' output."""
        return self.folder / "logs"

    @property
    def cache(self) -> Path:
        """Folder for what can be regenerated."""
        return self.folder / "cache"

    @property
    def password(self) -> str:
        """The password of the user ``admin``, generated once."""
        path = self.folder / "airflow" / "passwords.json"
        if not path.exists():
            _write_secret(path, json.dumps({USER: secrets.token_urlsafe(12)}))
        return str(json.loads(path.read_text(encoding="utf-8"))[USER])

    def environment(self) -> dict[str, str]:
        """Return the variables that every component and every task sees."""
        airflow = self.folder / "airflow"
        secret = airflow / "jwt_secret"
        if not secret.exists():
            _write_secret(secret, secrets.token_hex(64))
        bundle = {
            "name": "headgate",
            "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
            "kwargs": {"path": str(self.dags), "refresh_interval": 10},
        }
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW_")}
        inherited.pop("PYTHONDONTWRITEBYTECODE", None)  # would recompile Airflow at every start
        if self.database:
            inherited[DATABASE] = self.database
        binaries = str(Path(sys.executable).parent)
        return {
            **inherited,
            "AIRFLOW_HOME": str(airflow),
            "AIRFLOW_CONN_SPARK_DEFAULT": os.environ.get(
                "AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}'
            ),
            "AIRFLOW__API_AUTH__JWT_SECRET": secret.read_text(encoding="utf-8"),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "6",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(airflow / "passwords.json"),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle]),
            "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "10",
            "HEADGATE_HOME": str(self.home),
            "HEADGATE_SCHEDULES": "on" if self.schedules else "off",
            "HEADGATE_STREAMS": str(self.streams),
            "MPLCONFIGDIR": str(self.cache / "matplotlib"),
            "PATH": binaries + os.pathsep + os.environ.get("PATH", os.defpath),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONUNBUFFERED": "1",
            "SPARK_LAUNCHER_OPTS": SMALL_JVM,
            "SPARK_LOCAL_DIRS": str(self.folder / "tmp"),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_SUBMIT_OPTS": SMALL_JVM,
        }

    def __enter__(self) -> LocalAirflow:
        self._take_lock()
        self._clear_leftovers()
        atexit.register(self.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        atexit.unregister(self.stop)
        if self._lock is not None:
            self._lock.close()

    def migrate(self) -> None:
        """Bring the metadata database up to date, if this Airflow version has not done so yet."""
        stamp = self.folder / "airflow" / "migrated"
        wanted = f"{version('apache-airflow-core')} {self._database_digest()}"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return
        self.command("db", "migrate")
        stamp.write_text(wanted, encoding="utf-8")

    def reserialize(self) -> None:
        """Tell the database which DAGs there are, if the files they come from have changed."""
        stamp = self.folder / "airflow" / "serialized"
        wanted = self._dag_digest()
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return
        self.command("dags", "reserialize")
        stamp.write_text(wanted, encoding="utf-8")

    def command(self, *arguments: str) -> None:
        """Run one Airflow command to its end."""
        name = "-".join(arguments[:2])
        with self._log(name).open("ab") as log:
            done = subprocess.run(
                _airflow(*arguments), env=self.environment(), cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False,
            )  # fmt: skip
        if done.returncode:
            raise LocalAirflowError(self._complaint(f"airflow {' '.join(arguments)}", name))

    def start(self, components: Sequence[str] = tuple(COMPONENTS)) -> None:
        """Start components, each in a session of its own."""
        _ = self.password  # otherwise Airflow generates one and prints it
        for name in components:
            with self._log(name).open("ab") as log:
                self.processes[name] = psutil.Popen(
                    _airflow(*COMPONENTS[name]), env=self.environment(), cwd=self.folder,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    start_new_session=True,
                )  # fmt: skip
        self._remember()

    def check_java(self) -> None:
        """Raise unless the Java that Spark will use runs."""
        if problem := java_problem(self.environment()):
            raise LocalAirflowError(problem)

    def check_alive(self) -> None:
        """Raise if a component has ended by itself."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise LocalAirflowError(self._complaint(f"airflow {name}", name))

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Interrupt every component, wait a little, and kill what is left with its children."""
        family = [p for root in self.processes.values() for p in _with_children(root)]
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
                os.killpg(process.pid, signal.SIGINT)
        _end(family, grace_s)
        self.processes.clear()
        self._pids.unlink(missing_ok=True)

    @property
    def _pids(self) -> Path:
        return self.folder / "airflow" / "processes.json"

    def _log(self, name: str) -> Path:
        self.logs.mkdir(parents=True, exist_ok=True)
        return self.logs / f"{name}.log"

    def _complaint(self, what: str, log: str) -> str:
        path = self._log(log)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        return f"{what} ended unexpectedly; the end of {path}:\n" + "\n".join(lines)

    def _remember(self) -> None:
        started = [[p.pid, p.create_time()] for p in self.processes.values() if p.is_running()]
        self._pids.write_text(json.dumps(started), encoding="utf-8")

    def _take_lock(self) -> None:
        """Let one Airflow use the folder at a time."""
        (self.folder / "airflow").mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / "airflow" / "lock").open("a+")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalAirflowError(
                f"another Airflow already runs in {self.folder}; stop it first (Ctrl-C where it "
                "was started)"
            ) from None

    def _clear_leftovers(self) -> None:
        """Stop what a predecessor started here but was killed too early to stop."""
        if not self._pids.exists():
            return
        left: list[psutil.Process] = []
        for pid, created in json.loads(self._pids.read_text(encoding="utf-8")):
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.create_time() == created:
                    left += _with_children(process)
        _end(left, 0)
        self._pids.unlink()

    def _database_digest(self) -> str:
        """Digest of the database's URL, which may contain a password."""
        return hashlib.sha256((self.database or "").encode()).hexdigest()

    def _dag_digest(self) -> str:
        """Digest of everything that shapes the DAGs."""
        packages = [package_folder(name) for name in ("headgate_airflow", "planning")]
        folders = [self.dags, self.streams, *packages]
        shape = (self.streams, self.schedules, self._database_digest())
        digest = hashlib.sha256(str(shape).encode())
        for path in sorted({p for folder in folders for p in folder.rglob("*")}):
            if path.suffix in (".py", ".yaml"):
                digest.update(str(path).encode() + path.read_bytes())
        return digest.hexdigest()


def wait_until(
    ready: Callable[[], bool], airflow: LocalAirflow, timeout_s: float, what: str
) -> None:
    """Wait until ``ready()`` is true, as long as every component is alive."""
    end = time.monotonic() + timeout_s
    while not ready():
        airflow.check_alive()
        if time.monotonic() > end:
            raise LocalAirflowError(
                f"{what} took more than {timeout_s:.0f} s; see the files in {airflow.logs}"
            )
        time.sleep(0.2)


def _airflow(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *arguments]


def _write_secret(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _with_children(process: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [process, *process.children(recursive=True)]
    return []


def _end(processes: list[psutil.Process], grace_s: float) -> None:
    """Wait for processes, then kill those that are left."""
    _, alive = psutil.wait_procs(processes, timeout=grace_s)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=GRACE_S)
