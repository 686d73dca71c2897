"""The flights of 2013."""

import pytest

from benchmarks.sifter import recorded
from benchmarks.sifter.scene import flown
from planning.errors import InvalidInput


def test_flights_without_the_file_say_where_it_should_be(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADGATE_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match="HEADGATE_DATA"):
        recorded.read()


@pytest.mark.usefixtures("shared_data")
def test_flights_are_shed_better_than_at_random():
    points = recorded.read()
    assert len(points) == 327_346
    scene = flown(0, points, fresh=20_000)
    losses = scene.losses(scene.plan("cost_tree", 16), (0.3, 0.5, 0.7))
    assert (losses < 0.9).all()
