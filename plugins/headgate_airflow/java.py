"""Check for the Java that Spark will use."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path


def java_problem(environment: Mapping[str, str]) -> str:
    """Return what is wrong with Java and what to do about it; nothing if it runs.

    >>> java_problem({"JAVA_HOME": "/nowhere"})[:61]
    'Spark needs Java 17 or newer, and /nowhere/bin/java does not '
    """
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        subprocess.run(
            [java, "-version"], env=dict(environment), check=True, capture_output=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        return (
            f"Spark needs Java 17 or newer, and {java} does not run ({error}). Install one "
            "(Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one that is "
            "there, then start again; `make run` looks for one and fetches one if there is none."
        )
    return ""
