"""What keyed decisions cost in JavaScript, by the form of the key."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.rows import Row, row
from planning.artifacts.codec import encode_json
from planning.examples import demo_plan

ROOM = Path(__file__).resolve().parents[1] / "consumers" / "js"
ITEMS = 1_000_000
LEAST = 5e6
FORMS = {"longs": "key of longs", "numbers": "key of doubles", "drawn": "draws given"}


def run(quick: bool) -> list[Row]:
    node = shutil.which("node")
    if node is None:
        return [row("keyed decisions in Node", f">= {LEAST / 1e6:g} M/s", "no node here", None)]
    items, rounds = (ITEMS // 4, 5) if quick else (ITEMS, 20)
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder, "plan.json")
        plan.write_bytes(encode_json(demo_plan("sifter"), "sifter"))
        call = [node, str(ROOM / "bench.mjs"), str(plan), str(items), str(rounds)]
        done = subprocess.run(call, capture_output=True, text=True, check=True)
    seconds = json.loads(done.stdout)
    rows = []
    for form, name in FORMS.items():
        rate = items / seconds[form]
        bar = f"sifter decisions in Node, {name}"
        rows.append(row(bar, f">= {LEAST / 1e6:g} M/s", f"{rate / 1e6:.1f} M/s", rate >= LEAST))
    texts = items / seconds["texts"] / 1e6
    rows.append(row("sifter decisions in Node, key of texts", "reported", f"{texts:.1f} M/s", None))
    micros = 1e6 * seconds["settings"]
    rows.append(row("sifter setting in Node", "reported", f"{micros:.1f} µs", None))
    return rows
