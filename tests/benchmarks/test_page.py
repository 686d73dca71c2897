"""The page of benchmarks says what is met, what is not, and on which machine."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.__main__ import NAMES, closing, counts, page

ROWS = [
    ["sifter", "path = LP", "1e-9", "8e-15", "yes"],
    ["sifter", "reproduction", "+- 0.03", "0.032", "NO"],
    ["sifter", "growth | samples", "reported", "6 ms", "reported"],
    ["fit", "optimum", "1e-9", "1e-15", "yes"],
]


def test_rows_are_counted_by_family():
    assert counts(ROWS) == [["sifter", "1", "1", "1"], ["fit", "1", "0", "0"]]


def test_bars_that_are_not_met_are_named():
    assert closing(ROWS) == "2 of 3 bars are met. Not met: sifter, reproduction."
    assert closing(ROWS[3:]) == "1 of 1 bars are met."


def test_the_page_holds_every_row_and_the_machine():
    text = page(ROWS, minutes=12.4)
    assert "12 minutes" in text
    assert "cores" in text
    assert "| sifter | growth / samples | reported | 6 ms | reported |" in text
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 4 + 2 + 2


def test_an_unknown_family_is_a_usage_error():
    command = [sys.executable, "-m", "benchmarks", "sifters"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"there are {', '.join(NAMES)}, got sifters" in done.stderr
