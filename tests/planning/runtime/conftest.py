import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.runtime import PlanClient

HELPERS = Path(__file__).parents[1] / "artifacts"


@pytest.fixture(scope="module")
def tally():
    """The test family, known to the library while a module's tests run."""
    path = HELPERS / "tally_family.py"
    spec = importlib.util.spec_from_file_location("tally_family", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.registered():
        yield module


class Clock:
    """Unix time that the test moves."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def house(tally, tmp_path):
    """A store with a signer that it trusts, and a clock set to shortly after publication."""
    signer = SigningKey.load_or_create(tmp_path / "keys")
    store = Store(tmp_path / "plans", TrustedKeys.load(tmp_path / "keys"))

    def publish(label="a", cuts=(0.0, 0.25, 0.5, 0.75), **options):
        return tally.publish(store, signer, tally.tally_plan(label, cuts), **options)

    return SimpleNamespace(
        store=store, signer=signer, publish=publish, tally=tally, clock=Clock(1767323045.0 + 60)
    )


@pytest.fixture
def client(house):
    """A client of the house's store, on a node of its own."""
    return PlanClient(house.store, "ticks", node="edge-1", clock=house.clock)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A Redis server for the leases of a module's tests."""
    from lease_world import running

    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def world(server, tmp_path):
    """A fleet on that server whose time and messages the test decides on."""
    from lease_world import World

    world = World(server, tmp_path)
    yield world
    world.close()
