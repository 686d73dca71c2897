"""The conformance kit: test vectors for consumers of plans in other languages.

``python -m planning.conformance OUT`` writes it; docs/artifacts.md says what is in it. The vectors
are made in ``consumers/kit`` of the repository, by the code that nodes run.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    if not (ROOT / "consumers").is_dir():
        sys.exit("headgate: the conformance kit is made from the repository, got only the library")
    sys.path.insert(0, str(ROOT))
    runpy.run_module("consumers.kit", run_name="__main__")
