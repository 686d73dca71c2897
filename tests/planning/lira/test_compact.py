"""Compact forms decode to the plan, at every point, and refuse what is broken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.errors import ArtifactError
from planning.lira import compact, rangecoder
from planning.lira.nodemap import NodeMap
from planning.lira.plan import Plan
from planning.lira.stations import broadcasts, place_by_density, touched
from planning.lira.treecode import TreeReader

STATED_ERROR = 95.0 / 65535 / 2 + 1e-5  # half a unit, and single precision of the raster


@pytest.fixture(scope="module")
def plan(scene):
    return scene.plan(scene.queries("proportional", 15), 0.5, regions=120, cells=64)


@pytest.fixture(scope="module", params=["halving", "quadtree", "gridreduce", "grid"])
def any_plan(request, scene):
    queries = scene.queries("inverse", 15)
    return scene.plan(queries, 0.6, regions=50, cells=50, partitioner=request.param)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=300))
@settings(deadline=None)
def test_range_coder_returns_what_it_was_given(decisions):
    contexts = np.array([c for c, _ in decisions], dtype=np.int32)
    bits = np.array([b for _, b in decisions], dtype=np.uint8)
    reader = TreeReader(rangecoder.encode(contexts, bits, 5), 5)
    assert [reader.bit(c) for c, _ in decisions] == [int(b) for _, b in decisions]


def test_range_coder_is_near_the_entropy():
    rng = np.random.default_rng(0)
    bits = (rng.random(20_000) < 0.1).astype(np.uint8)
    size = len(rangecoder.encode(np.zeros(bits.size, np.int32), bits, 1))
    entropy = -(0.1 * np.log2(0.1) + 0.9 * np.log2(0.9)) * bits.size / 8
    assert size < 1.03 * entropy


def test_binary_plan_is_lossless(any_plan):
    again = Plan.from_bytes(any_plan.to_bytes())
    assert again.to_document() == any_plan.to_document()
    for z in (0.25, 0.5, 0.8):
        np.testing.assert_array_equal(again.at(z).throttlers, any_plan.at(z).throttlers)


@pytest.mark.parametrize("z", [0.2, 0.35, 0.5, 0.77, 1.0])
def test_whole_map_decodes_to_the_plan_at_every_cell(any_plan, z):
    node = NodeMap.from_map(compact.encode_map(any_plan, z))
    wanted = any_plan.partition.paint(any_plan.at(z).throttlers)
    assert node.cells.shape == wanted.shape
    np.testing.assert_allclose(node.cells, wanted, atol=STATED_ERROR)


@pytest.mark.parametrize("z", [0.25, 0.5, 0.9])
def test_a_change_of_z_is_a_few_bytes_and_exact(any_plan, z):
    node = NodeMap.from_map(compact.encode_map(any_plan))
    message = compact.encode_change(any_plan, z)
    assert len(message) <= 40
    node.change(message)
    wanted = any_plan.partition.paint(any_plan.at(z).throttlers)
    np.testing.assert_allclose(node.cells, wanted, atol=STATED_ERROR)


@pytest.mark.parametrize("z", [None, 0.3, 0.6])
def test_every_station_knows_all_its_coverage(plan, scene, z):
    grid = scene.statistics(np.zeros((0, 4)), 64).grid
    stations = place_by_density(grid.nodes.astype(float), grid.bounds, nodes_per_station=4000)
    assert stations.count > 3
    rng = np.random.default_rng(1)
    raster = plan.partition.paint(plan.at(z or 0.4).throttlers)
    x_low, y_low, x_high, y_high = plan.frame.bounds
    width, height = plan.frame.cell_size
    for i, message in enumerate(broadcasts(plan, stations, z)):
        node = NodeMap.from_part(message, plan.frame)
        if z is None:
            node.change(compact.encode_change(plan, 0.4))
        angle, share = rng.uniform(0, 2 * np.pi, 400), np.sqrt(rng.random(400))
        x = stations.x[i] + stations.radius[i] * share * np.cos(angle)
        y = stations.y[i] + stations.radius[i] * share * np.sin(angle)
        inside = (x > x_low) & (x < x_high) & (y > y_low) & (y < y_high)
        x, y = x[inside], y[inside]
        wanted = raster[((y - y_low) / height).astype(int), ((x - x_low) / width).astype(int)]
        np.testing.assert_allclose(node.thresholds(x, y), wanted, atol=STATED_ERROR)
        singles = [node.threshold(a, b) for a, b in zip(x[:20], y[:20], strict=True)]
        np.testing.assert_array_equal(singles, node.thresholds(x[:20], y[:20]))
        assert len(touched(plan.partition, plan.frame, stations.x[i], stations.y[i], 1.0)) >= 1


def test_outside_its_part_a_node_reports_as_if_at_the_lowest_threshold(plan, scene):
    grid = scene.statistics(np.zeros((0, 4)), 64).grid
    stations = place_by_density(grid.nodes.astype(float), grid.bounds, nodes_per_station=4000)
    smallest = int(stations.radius.argmin())
    node = NodeMap.from_part(broadcasts(plan, stations, 0.3)[smallest], plan.frame)
    far = (stations.x[smallest] + 9000) % 14142, (stations.y[smallest] + 9000) % 14142
    assert node.threshold(*far) == plan.frame.low
    assert node.thresholds([np.nan], [np.nan])[0] == plan.frame.low


def test_positions_outside_the_space_use_the_nearest_cell(plan):
    node = NodeMap.from_map(compact.encode_map(plan, 0.4))
    x_low, y_low, x_high, y_high = plan.frame.bounds
    corners = node.thresholds([-1e9, 1e9, x_low, x_high], [-1e9, 1e9, y_low, y_high])
    assert corners[0] == corners[2] == node.cells[0, 0]
    assert corners[1] == corners[3] == node.cells[-1, -1]
    assert node.threshold(-1e9, -1e9) == node.cells[0, 0]


def test_map_size(plan):
    for z in (0.3, 0.5, 0.75):
        assert len(compact.encode_map(plan, z)) / plan.regions < 1.3


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_damaged_bytes_never_do_anything_but_refuse_or_decode(plan, data):
    message = data.draw(
        st.sampled_from([plan.to_bytes(), compact.encode_map(plan, 0.5), compact.encode_map(plan)])
    )
    cut = data.draw(st.integers(0, len(message)))
    damaged = bytearray(message[:cut])
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            place = data.draw(st.integers(0, len(damaged) - 1))
            damaged[place] ^= data.draw(st.integers(1, 255))
    for read in (Plan.from_bytes, NodeMap.from_map):
        try:
            read(bytes(damaged))
        except ArtifactError:
            pass


def test_a_part_of_another_frame_is_refused(plan, scene):
    other = scene.plan(scene.queries("random", 5), 0.5, regions=20, cells=32)
    sent = np.ones(other.partition.symbols.size, dtype=bool)
    message = compact.encode_part(other, 0.5, sent)
    with pytest.raises(ArtifactError, match="belongs to frame"):
        NodeMap.from_part(message, plan.frame)
    with pytest.raises(ArtifactError, match="kind"):
        NodeMap.from_map(message)
    with pytest.raises(ArtifactError, match="needs a map with levels"):
        NodeMap.from_map(compact.encode_map(plan, 0.5)).change(compact.encode_change(plan, 0.5))
