"""Where the parts of an installation are: the home, the installed packages, the cache."""

from __future__ import annotations

import os
import tempfile
from importlib import resources
from pathlib import Path

from planning.home import Home


def home() -> Home:
    """Return the home that ``HEADGATE_HOME`` names, else the folder ``headgate`` in Airflow's own.

    Airflow's processes work in whatever folder they were started in, so the library's own
    default would differ between them. The choice is put into the environment for subprocesses.
    """
    airflow = Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
    os.environ["HEADGATE_HOME"] = os.environ.get("HEADGATE_HOME") or str(airflow / "headgate")
    return Home.from_environment()


def package_folder(package: str) -> Path:
    """Return the folder of an installed package.

    >>> (package_folder("spark_apps") / "validate.py").is_file()
    True
    """
    return Path(str(resources.files(package)))


def cache_folder(home: Home) -> Path:
    """Return a local folder for things that can be regenerated."""
    if home.root.protocol in ("", "file"):
        return Path(home.root.path) / "cache"
    return Path(tempfile.gettempdir()) / "headgate-cache"
