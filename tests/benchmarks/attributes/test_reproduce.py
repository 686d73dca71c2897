"""The reproduction writes every table and figure, and its numbers are the paper's."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks.attributes.reproduce import reproduce
from benchmarks.reproduction import claims_of


@pytest.mark.slow
def test_every_part_is_made(tmp_path: Path, shared_data: Path) -> None:
    seen: list[str] = []
    reproduce(tmp_path, True, seen.append)
    page = (tmp_path / "attributes.md").read_text()
    assert "Left out" not in page
    assert len(seen) == 9
    for name in ("table-2", "faults", "table-4", "figure-4", "adaptive", "comparison", "channel"):
        assert (tmp_path / f"attributes-{name}.csv").is_file()
    for name in ("faults", "figure-1", "figure-4", "comparison", "plan"):
        assert f"![{name}]" in page
        assert (tmp_path / f"attributes-{name}.svg").stat().st_size > 1000
    verdicts = {row[0]: row[-1] for row in claims_of(tmp_path / "attributes.md")}
    assert len(verdicts) == 9
    assert verdicts.pop("Figure 3").startswith("differs: ")
    assert verdicts.pop("Sections I and III").startswith("differs: ")
    assert set(verdicts.values()) == {"reproduced"}
    with (tmp_path / "attributes-table-4.csv").open() as stream:
        average = list(csv.DictReader(stream))[-1]
    assert float(average["hits"]) == pytest.approx(94.3, abs=3.0)


def test_without_data_the_page_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr("benchmarks.attributes.reproduce._faults", lambda page, quick: None)
    monkeypatch.setattr("benchmarks.attributes.reproduce._right_cycles", lambda length: (6, 6))
    reproduce(tmp_path, True, lambda line: None)
    page = (tmp_path / "attributes.md").read_text()
    assert "set HEADGATE_DATA" in page
    assert "minute 40" in page
