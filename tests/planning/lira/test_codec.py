"""Both encodings and the messages decode to the plan, and refuse what is broken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planning.errors import ArtifactError
from planning.lira.codec import messages, rangecoder
from planning.lira.codec.treecode import TreeReader
from planning.lira.model import Frame
from planning.lira.plan import Plan
from planning.lira.stations import NodeMap
from planning.packing import Reader

STATED_ERROR = 95.0 / 65535 / 2 + 1e-5  # half a unit, and single precision of the raster


@pytest.fixture(scope="module")
def city(scene) -> Plan:
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
    node = NodeMap.from_map(messages.encode_map(any_plan, z))
    wanted = any_plan.partition.paint(any_plan.at(z).throttlers)
    assert node.cells.shape == wanted.shape
    np.testing.assert_allclose(node.cells, wanted, atol=STATED_ERROR)


@pytest.mark.parametrize("z", [0.25, 0.5, 0.9])
def test_a_change_of_z_is_a_few_bytes_and_exact(any_plan, z):
    node = NodeMap.from_map(messages.encode_map(any_plan))
    message = messages.encode_change(any_plan, z)
    assert len(message) <= 40
    node.change(message)
    wanted = any_plan.partition.paint(any_plan.at(z).throttlers)
    np.testing.assert_allclose(node.cells, wanted, atol=STATED_ERROR)


def test_map_size(city):
    for z in (0.3, 0.5, 0.75):
        assert len(messages.encode_map(city, z)) / city.regions < 1.3


def damage(data, message: bytes) -> bytes:
    """Return the message cut somewhere, with a few bytes changed."""
    damaged = bytearray(message[: data.draw(st.integers(0, len(message)))])
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    return bytes(damaged)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_a_damaged_plan_is_refused_or_a_plan(city, data):
    damaged = damage(data, city.to_bytes())
    try:
        read = Plan.from_bytes(damaged)
    except ArtifactError:
        assert damaged != city.to_bytes()
        return
    assert read.level.size == read.regions
    assert read.ratio.size == read.weight.size == read.inside.size > read.level.max()
    assert read.reduction.size == read.errors.size == read.frame.segments + 1
    assert Plan.from_bytes(read.to_bytes()).to_bytes() == read.to_bytes()


@given(st.data(), st.sampled_from([None, 0.5]))
@settings(max_examples=120, deadline=None)
def test_a_damaged_map_is_refused_or_a_map(city, data, load):
    message = messages.encode_map(city, load)
    damaged = damage(data, message)
    try:
        node = NodeMap.from_map(damaged)
    except ArtifactError:
        assert damaged != message
        return
    slack = 1e-6 * node.frame.high
    assert node.cells.min() >= node.frame.low - slack
    assert node.cells.max() <= node.frame.high + slack


def test_a_message_cut_before_its_tree_is_refused(city):
    payload, whole = city.to_bytes(), messages.encode_map(city, 0.5)
    frame = len(messages.frame_bytes(city.frame))
    tables = 4 * (3 * city.ratio.size + 2 * city.reduction.size)
    for size in range(4 + 38 + frame + tables):
        with pytest.raises(ArtifactError, match="lira plan must"):
            Plan.from_bytes(payload[:size])
    for size in range(3 + frame):
        with pytest.raises(ArtifactError, match="lira map must have"):
            NodeMap.from_map(whole[:size])


def test_documents_that_do_not_fit_are_refused(plan):
    good = plan.to_document()
    for change in (
        {"format": 9}, {"tree": "LL"}, {"tree": "Q"}, {"level": [0]}, {"bounds": [0, 0, 1]},
        {"reduction": [1.0]}, {"level": [999] * plan.regions}, {"side": 0}, {"extra": 1},
    ):  # fmt: skip
        with pytest.raises(ArtifactError):
            Plan.from_document(good | change)


def test_a_frame_survives_its_bytes():
    for bounds, size in (((0.0, 0.0, 14142.0, 14142.0), 29), ((0.1, 0.2, 3.3, 4.4), 53)):
        frame = Frame(bounds, 100, 5.0, 100.0, 95)
        data = messages.frame_bytes(frame)
        assert len(data) == size
        reader = Reader(data + b"rest", "frame")
        assert messages.read_frame(reader) == frame
        assert reader.rest() == b"rest"
