"""What stations broadcast is what nodes look up, wherever they roam."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lira.placement import place_by_density, place_evenly
from planning.arrays import frozen
from planning.errors import ArtifactError
from planning.lira.codec import messages
from planning.lira.plan import Plan
from planning.lira.stations import NodeMap, RoamingNode, Stations, broadcasts

STATED_ERROR = 95.0 / 65535 / 2 + 1e-5  # half a unit, and single precision of the raster


@pytest.fixture(scope="module")
def city(scene) -> Plan:
    return scene.plan(scene.queries("proportional", 15), 0.5, regions=120, cells=64)


@pytest.mark.parametrize("z", [None, 0.3, 0.6])
def test_every_station_knows_all_its_coverage(city, scene, z):
    grid = scene.statistics(np.zeros((0, 4)), 64).grid
    stations = place_by_density(grid.nodes.astype(float), grid.bounds, nodes_per_station=4000)
    assert stations.count > 3
    rng = np.random.default_rng(1)
    raster = city.partition.paint(city.at(z or 0.4).throttlers)
    x_low, y_low, x_high, y_high = city.frame.bounds
    width, height = city.frame.cell_size
    for i, message in enumerate(broadcasts(city, stations, z)):
        node = NodeMap.from_part(message, city.frame)
        if z is None:
            node.change(messages.encode_change(city, 0.4))
        angle, share = rng.uniform(0, 2 * np.pi, 400), np.sqrt(rng.random(400))
        x = stations.x[i] + stations.radius[i] * share * np.cos(angle)
        y = stations.y[i] + stations.radius[i] * share * np.sin(angle)
        inside = (x > x_low) & (x < x_high) & (y > y_low) & (y < y_high)
        x, y = x[inside], y[inside]
        wanted = raster[((y - y_low) / height).astype(int), ((x - x_low) / width).astype(int)]
        np.testing.assert_allclose(node.thresholds(x, y), wanted, atol=STATED_ERROR)
        singles = [node.threshold(a, b) for a, b in zip(x[:20], y[:20], strict=True)]
        np.testing.assert_array_equal(singles, node.thresholds(x[:20], y[:20]))


def test_outside_its_part_a_node_reports_as_if_at_the_lowest_threshold(city, scene):
    grid = scene.statistics(np.zeros((0, 4)), 64).grid
    stations = place_by_density(grid.nodes.astype(float), grid.bounds, nodes_per_station=4000)
    smallest = int(stations.radius.argmin())
    node = NodeMap.from_part(broadcasts(city, stations, 0.3)[smallest], city.frame)
    far = (stations.x[smallest] + 9000) % 14142, (stations.y[smallest] + 9000) % 14142
    assert node.threshold(*far) == city.frame.low
    assert node.thresholds([np.nan], [np.nan])[0] == city.frame.low


def test_positions_outside_the_space_use_the_nearest_cell(city):
    node = NodeMap.from_map(messages.encode_map(city, 0.4))
    x_low, y_low, x_high, y_high = city.frame.bounds
    corners = node.thresholds([-1e9, 1e9, x_low, x_high], [-1e9, 1e9, y_low, y_high])
    assert corners[0] == corners[2] == node.cells[0, 0]
    assert corners[1] == corners[3] == node.cells[-1, -1]
    assert node.threshold(-1e9, -1e9) == node.cells[0, 0]


def test_a_part_of_another_frame_is_refused(city, scene):
    other = scene.plan(scene.queries("random", 5), 0.5, regions=20, cells=32)
    sent = np.ones(other.partition.symbols.size, dtype=bool)
    message = messages.encode_part(other, 0.5, sent)
    with pytest.raises(ArtifactError, match="belongs to frame"):
        NodeMap.from_part(message, city.frame)
    with pytest.raises(ArtifactError, match="kind"):
        NodeMap.from_map(message)
    with pytest.raises(ArtifactError, match="needs a map with levels"):
        NodeMap.from_map(messages.encode_map(city, 0.5)).change(messages.encode_change(city, 0.5))


def test_a_roaming_node_is_handed_off_and_always_knows_its_throttler(plan, samples):
    stations = place_evenly(plan.frame.bounds, 600.0)
    messages = broadcasts(plan, stations, 0.4)
    raster = plan.partition.paint(plan.at(0.4).throttlers)
    node = RoamingNode(stations, messages, plan.frame)
    width, height = plan.frame.cell_size
    for x, y in zip(samples["x"][:400], samples["y"][:400], strict=True):
        wanted = raster[int(y / height), int(x / width)]
        assert node.threshold(float(x), float(y)) == pytest.approx(wanted, abs=2e-3)
    assert node.handoffs >= 1
    many = stations.serving_all(
        samples["x"][:50], samples["y"][:50], np.full(50, -1, dtype=np.int64)
    )
    singles = [
        stations.serving(float(x), float(y))
        for x, y in zip(samples["x"][:50], samples["y"][:50], strict=True)
    ]
    assert many.tolist() == singles


def test_a_node_stays_with_its_station_while_covered():
    stations = Stations(frozen([0.0, 10.0]), frozen([0.0, 0.0]), frozen([8.0, 8.0]))
    x, y = np.array([4.0, 6.0, 9.0, 30.0]), np.zeros(4)
    stay = np.array([1, 0, 0, -1], dtype=np.int64)
    # Covered by both: stays, though the other is nearer. Out of reach: handed off, to the nearest.
    wanted = [1, 0, 1, 1]
    assert stations.serving_all(x, y, stay).tolist() == wanted
    one_by_one = [stations.serving(a, 0.0, int(c)) for a, c in zip(x.tolist(), stay, strict=True)]
    assert one_by_one == wanted
    assert stations.serving_all(x, y, np.full(4, -1, dtype=np.int64)).tolist() == [0, 1, 1, 1]
