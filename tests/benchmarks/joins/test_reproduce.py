"""A figure of the paper is reproduced, with its claim, its table and how to make it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.joins import reproduce
from benchmarks.joins.page import JoinsPage
from benchmarks.reproduction import claims_of


def test_figure_5_is_reproduced(tmp_path: Path) -> None:
    page = JoinsPage(tmp_path, quick=True)
    reproduce._figure_5(page)
    written = page.write()
    ((figure, _, _, verdict),) = claims_of(written)
    assert (figure, verdict) == ("Figure 5", "reproduced")
    assert (tmp_path / "joins-figure-5.csv").read_text().count("\n") == 11
    assert "Made by `make reproduce FAMILY=joins QUICK=1`." in written.read_text()
