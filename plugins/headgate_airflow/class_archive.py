"""Spark's classes, loaded once and kept for the next start of the Java machine.

Loading and verifying some 20,000 classes is a quarter of what a small Spark application costs. A
class data archive spares that: the first demo run ends with a rehearsal, which repeats one run's
validation on a copy and lets Java write down what it loaded; later runs start from the archive.
Java itself ignores an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from headgate_airflow.places import package_folder

ARCHIVE = "spark-classes-{}.jsa"
QUIET = "-Xlog:disable -Xlog:all=error:stderr"


def archive_path(folder: Path) -> Path:
    """Return where the archive for this Java and this Spark lies, or would lie."""
    java = Path(os.environ.get("JAVA_HOME") or "/nowhere") / "release"
    told = java.read_bytes() if java.is_file() else b""
    key = hashlib.sha256(told + str((version("pyspark"), sys.prefix)).encode()).hexdigest()[:12]
    return folder / ARCHIVE.format(key)


def java_options(folder: Path) -> str:
    """Return the options that make Java use the archive; none if there is none."""
    path = archive_path(folder)
    return f"-XX:SharedArchiveFile={path} {QUIET}" if path.exists() else ""


class Rehearsal:
    """One validation in the background, of which only Java's archive is kept."""

    def __init__(self, run: Path, archive: Path, environment: Mapping[str, str]) -> None:
        self.archive = archive
        archive.parent.mkdir(parents=True, exist_ok=True)
        self._scratch = tempfile.TemporaryDirectory(prefix="rehearsal-", dir=archive.parent)
        self._written = Path(self._scratch.name) / "archive.jsa"
        copy = shutil.copytree(run, Path(self._scratch.name) / "run")
        options = [environment["SPARK_SUBMIT_OPTS"], f"-XX:ArchiveClassesAtExit={self._written}"]
        app = package_folder("spark_apps") / "validate.py"
        self._process = subprocess.Popen(
            ["spark-submit", "--master", "local[1]", str(app), "--run", str(copy)],
            env={**environment, "SPARK_SUBMIT_OPTS": " ".join([*options, QUIET])},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def end(self) -> None:
        """Wait for the end and keep the archive, if one was written whole, in place of others."""
        if self._process.wait() == 0 and self._written.exists():
            for former in self.archive.parent.glob(ARCHIVE.format("*")):
                former.unlink()
            self._written.replace(self.archive)
        self._scratch.cleanup()

    def abandon(self) -> None:
        """Stop at once and keep nothing."""
        self._process.terminate()
        self._process.wait()
        self._scratch.cleanup()
