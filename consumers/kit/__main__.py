"""``python -m planning.conformance OUT`` writes the kit to the folder OUT."""

from __future__ import annotations

import argparse
from pathlib import Path

from consumers.kit import write

parser = argparse.ArgumentParser(prog="python -m planning.conformance", description=__doc__)
parser.add_argument("out", type=Path, help="folder of the kit; created if need be")
for name, made in write(parser.parse_args().out)["files"].items():
    print(f"{name}: {made['decisions']:,} decisions, {made['damaged']} damaged plans")
