"""A node with a cold or a stale cache: compiled elsewhere, loaded here."""

import os
import subprocess
import sys

import pytest

from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_plan

SCRIPT = """
import gc, sys
from numba.core import event
from planning.artifacts import TrustedKeys
from planning.runtime import PlanClient, RunningShedder
folder = sys.argv[1]
client = PlanClient(f"{folder}/plans", "s", trusted=TrustedKeys.load(f"{folder}/keys"), node="n")
shedder = RunningShedder(client, load=0.5)
with event.install_recorder("numba:compile") as compiled:
    assert client.poll(), client.last_error
    shedder.offer([])
print(sum(entry.is_start for _, entry in compiled.buffer), shedder.version, gc.isenabled())
"""


@pytest.fixture
def start(tmp_path):
    signer = SigningKey.load_or_create(tmp_path / "keys")
    store = Store(tmp_path / "plans", TrustedKeys.of(signer))
    store.publish(
        "s", demo_plan("attributes"), family="attributes", signer=signer,
        created_at="2026-01-02T03:04:05Z",
    )  # fmt: skip

    def run(**more):
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **more}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path)],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        compiled, version, collecting = done.stdout.split()
        return int(compiled), version, collecting

    return run


@pytest.mark.slow
def test_the_node_itself_compiles_nothing(start, tmp_path):
    assert start() == (0, "1", "True")
    markers = list((tmp_path / "cache").glob("headgate-attributes-*.compiled"))
    assert len(markers) == 1
    assert start() == (0, "1", "True")


@pytest.mark.slow
def test_a_cache_that_other_code_left_is_not_used(start, tmp_path):
    start()
    cache = tmp_path / "cache"
    for marker in cache.glob("*.compiled"):
        marker.rename(marker.with_name("headgate-attributes-0123456789abcdef.compiled"))
    indexes = list(cache.rglob("*.nbi"))
    assert indexes
    for index in indexes:
        index.write_bytes(b"left by another version")
    assert start() == (0, "1", "True")
    assert all(index.read_bytes() != b"left by another version" for index in indexes)


@pytest.mark.slow
def test_where_no_other_process_can_run_the_node_compiles(start, tmp_path):
    sitecustomize = tmp_path / "site" / "sitecustomize.py"
    sitecustomize.parent.mkdir()
    sitecustomize.write_text(
        "import subprocess\n"
        "def refused(*_, **__): raise OSError('no processes here')\n"
        "subprocess.run = refused\n"
    )
    compiled, version, collecting = start(PYTHONPATH=str(sitecustomize.parent))
    assert compiled > 0
    assert (version, collecting) == ("1", "True")
