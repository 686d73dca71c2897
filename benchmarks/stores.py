"""Publishers that race on one S3 store: versions without gap or double."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.rows import Row, measure, row
from planning.artifacts import SigningKey, Store, TrustedKeys
from planning.examples import demo_plan
from planning.families import Plan

PUBLISHERS = 16
PUBLICATIONS = 50
SUPPORT = Path(__file__).parents[1] / "tests" / "support"


def run(quick: bool) -> list[Row]:
    return measure([racing_publishers], quick)


def racing_publishers(quick: bool) -> Row:
    """Publish from processes of their own that all want the next version at once."""
    sys.path.append(str(SUPPORT))
    import s3fs  # noqa: F401  (once, and not in each child)
    from object_store import CREDENTIALS, Server

    plan = demo_plan("sifter")
    each = 5 if quick else PUBLICATIONS
    server = Server()
    os.environ.update(CREDENTIALS, AWS_ENDPOINT_URL=server.url)
    try:
        with tempfile.TemporaryDirectory() as folder:
            signer = SigningKey.load_or_create(Path(folder) / "keys")
            root = f"s3://{server.bucket()}/plans"
            started = time.perf_counter()
            # Forked before s3fs is in use here: its threads would not be in the children.
            logs = [Path(folder) / str(number) for number in range(PUBLISHERS)]
            children = [_publisher(root, signer, plan, each, log) for log in logs]
            failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
            seconds = time.perf_counter() - started
            told = [int(line) for log in logs for line in log.read_text().split()]
            store = Store(root, TrustedKeys.of(signer))
            versions = store.versions("ticks")
            sound = store.verify("ticks").ok and not store.history("ticks").broken
    finally:
        server.stop()
        del os.environ["AWS_ENDPOINT_URL"]
    wanted = PUBLISHERS * each
    gaps = len(set(range(1, max(versions) + 1)) - set(versions))
    doubles = len(told) - len(set(told))
    lost = len(set(told) ^ set(versions))
    whole = not (failed or gaps or doubles or lost) and sound and len(told) == wanted
    return row(
        f"S3: {PUBLISHERS} racing publishers, {each} publications each",
        f"{wanted} versions, 0 gaps, 0 doubles",
        f"{len(versions)} versions, {gaps} gaps, {doubles} doubles, {lost} told and not there or "
        f"there and not told, {failed} publishers failed; {seconds:.0f} s",
        whole,
    )


def _publisher(root: str, signer: SigningKey, plan: Plan, publications: int, log: Path) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        store = Store(root, TrustedKeys.of(signer))
        with log.open("w") as told:
            for _ in range(publications):
                made = store.publish(
                    "ticks",
                    plan,
                    family="sifter",
                    signer=signer,
                    created_at="2026-01-02T03:04:05Z",
                )
                print(made.version, file=told, flush=True)
        status = 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    for found in run("--quick" in sys.argv):
        print(found)
