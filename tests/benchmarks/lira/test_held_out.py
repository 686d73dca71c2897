"""The report on taxis, on tracks made up in their format."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from benchmarks.lira import held_out


def test_without_tracks_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["held_out", str(tmp_path)])
    assert held_out.main() == 0
    assert "no traces" in capsys.readouterr().out


@pytest.fixture
def traces(tmp_path) -> list[Path]:
    """Thirty taxis that drive about for an hour on both days; the newest line comes first."""
    rng = np.random.default_rng(2)
    for taxi in range(30):
        lines = []
        for day in held_out.DAYS:
            begin = datetime(2008, 5, day, held_out.FIRST_HOUR, tzinfo=UTC).timestamp()
            place = np.array([37.7, -122.4]) + rng.normal(0, 0.002, (120, 2)).cumsum(axis=0)
            for k, (latitude, longitude) in enumerate(place.tolist()):
                lines.append(f"{latitude:.5f} {longitude:.5f} 0 {int(begin) + 30 * k}")
        (tmp_path / f"new_{taxi}.txt").write_text("\n".join(reversed(lines)) + "\n")
    return sorted(tmp_path.glob("new_*.txt"))


def test_the_days_are_told_apart_and_compared(traces, monkeypatch, capsys):
    past, fresh = held_out.days(traces)
    assert len(past["time"]) == len(fresh["time"]) == 30 * 120
    assert past["time"].min() == 0.0
    assert past["time"].max() == 30 * 119
    assert 0.0 < past["speed"].mean() < 99.0
    monkeypatch.setattr("sys.argv", ["held_out", str(traces[0].parent)])
    monkeypatch.setattr(held_out, "SETTINGS", dict(list(held_out.SETTINGS.items())[:1]))
    monkeypatch.setattr(held_out, "LOADS", (0.5, 0.9))
    assert held_out.main() == 0
    assert "of 4 cells" in capsys.readouterr().out
