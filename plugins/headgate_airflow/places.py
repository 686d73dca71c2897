"""Where the parts of an installation are: the code, the stream definitions, the cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from planning.home import Home

REPOSITORY = Path(__file__).resolve().parents[2]
APPS = REPOSITORY / "spark_apps"


def streams_folder() -> Path:
    """Return the folder of stream definitions: ``HEADGATE_STREAMS``, else the repository's."""
    return Path(os.environ.get("HEADGATE_STREAMS") or REPOSITORY / "dags" / "streams")


def cache_folder(home: Home) -> Path:
    """Return a local folder for things that can be made again."""
    if home.root.protocol in ("", "file"):
        return Path(home.root.path) / "cache"
    return Path(tempfile.gettempdir()) / "headgate-cache"
