"""What the key hash costs per item, by the form a column comes in, and what loading it costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.rows import Row, best_of, measure, row
from planning.keys import hash_one, hashes, warm

ITEMS = 1_000_000
WORDS = 1000
LOADING = (
    "import time, numba; start = time.process_time()\n"
    "import planning.keys; planning.keys.warm()\n"
    "print(time.process_time() - start)"
)


def run(quick: bool) -> list[Row]:
    return measure([hashing, single_items, loading], quick)


def columns(items: int) -> dict[str, Any]:
    """Return key columns of every form; texts have 10 to 20 letters and are distinct."""
    rng = np.random.default_rng(14)
    letters = rng.integers(97, 123, (items, 20)).astype(np.uint32)
    letters[np.arange(20) >= rng.integers(10, 21, items)[:, None]] = 0
    texts = letters.view("U20").ravel()
    words = pa.array(texts[:WORDS])
    codes = pa.array(rng.integers(0, WORDS, items), pa.int32())
    return {
        "int64": rng.integers(-(2**62), 2**62, items),
        "float64": rng.random(items),
        "Arrow text": pa.array(texts),
        "NumPy text": texts,
        f"a dictionary of {WORDS:,} texts": pa.DictionaryArray.from_arrays(codes, words),
        "a list of texts": texts.tolist(),
    }


def hashing(quick: bool) -> list[Row]:
    items = ITEMS // 10 if quick else ITEMS
    warm()
    rows = []
    for form, column in columns(items).items():
        ns = 1e9 * best_of(3 if quick else 10, _hashed(column)).cpu / items
        rows.append(row(f"hashing {form}", "reported", f"{ns:.1f} ns per item", None))
    return rows


def _hashed(column: Any) -> Callable[[], Any]:
    return lambda: hashes([column])


def single_items(quick: bool) -> Row:
    def each() -> None:
        for number in range(1000):
            hash_one((number, "user-17"))

    us = 1e3 * best_of(3 if quick else 10, each).cpu
    return row("hashing one item, a number and a text", "reported", f"{us:.1f} µs", None)


def loading(quick: bool) -> list[Row]:
    """Load the kernels in new processes: with an empty compile cache, and with a filled one."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _seconds(folder)
        cached = min(_seconds(folder) for _ in range(1 if quick else 3))
    return [
        row("compiling the kernels", "reported", f"{cold:.2f} s", None),
        row("loading the kernels from the cache", "reported", f"{cached:.2f} s", None),
    ]


def _seconds(cache: str) -> float:
    call = [sys.executable, "-c", LOADING]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)
