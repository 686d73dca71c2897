"""Stations cover the whole space, and touch the regions that they broadcast."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira.placement import place_by_density, place_evenly, touched
from planning.errors import InvalidInput
from planning.lira.model import Frame
from planning.lira.partition.regions import Partition
from planning.lira.stations import Stations, sent_nodes

SPACE = (100.0, 0.0, 9100.0, 7000.0)


def covered(stations: Stations, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    gap = np.hypot(x[:, None] - stations.x, y[:, None] - stations.y)
    return (gap <= stations.radius * (1 + 1e-9)).any(axis=1)


@pytest.fixture
def places() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    return rng.uniform(SPACE[0], SPACE[2], 500), rng.uniform(SPACE[1], SPACE[3], 500)


def test_stations_stand_closer_where_nodes_are(places):
    nodes = np.ones((32, 32))
    nodes[:8, :8] = 100.0
    stations = place_by_density(nodes, SPACE, nodes_per_station=1000)
    assert covered(stations, *places).all()
    crowded = (stations.x < 2350.0) & (stations.y < 1750.0)
    assert stations.radius[crowded].max() < stations.radius[~crowded].max()
    assert stations.radius.min() >= 500.0
    with pytest.raises(InvalidInput, match="nodes_per_station"):
        place_by_density(nodes, SPACE, nodes_per_station=0)


def test_even_stations_of_one_radius_cover_the_space(places):
    stations = place_evenly(SPACE, 800.0)
    assert set(stations.radius.tolist()) == {800.0}
    assert covered(stations, *places).all()
    with pytest.raises(InvalidInput, match="radius_m"):
        place_evenly(SPACE, 0.0)


def test_a_disc_touches_the_regions_that_its_station_broadcasts():
    partition = Partition.even(50, 64)
    frame = Frame(SPACE, 50, 5.0, 100.0, 95)
    stations = place_evenly(SPACE, 700.0)
    for x, y, radius in zip(stations.x, stations.y, stations.radius, strict=True):
        disc = (float(x), float(y), float(radius))
        sent = sent_nodes(partition, frame, *disc)[partition.places]
        regions = touched(partition, frame, *disc)
        assert regions.tolist() == np.flatnonzero(sent).tolist()
        assert 1 <= regions.size < partition.regions
