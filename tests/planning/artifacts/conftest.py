import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from planning.artifacts import SigningKey, Store, TrustedKeys

HERE = Path(__file__).parent


def load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def load_module():
    """Loads a helper module of this folder by name."""
    return lambda name: load(HERE / f"{name}.py")


@pytest.fixture(scope="module")
def tally():
    """The test family, known to the library while a module's tests run."""
    module = load(HERE / "tally_family.py")
    with module.registered():
        yield module


@pytest.fixture
def house(tally, tmp_path):
    """A store with a signer that it trusts."""
    signer = SigningKey.load_or_create(tmp_path / "keys")
    store = Store(tmp_path / "plans", TrustedKeys.load(tmp_path / "keys"))

    def publish(label="a", **options):
        cuts = options.pop("cuts", (0.0, 0.25, 0.5, 0.75))
        return tally.publish(store, signer, tally.tally_plan(label, cuts), **options)

    return SimpleNamespace(
        store=store, signer=signer, publish=publish, keys=tmp_path / "keys", tally=tally
    )
