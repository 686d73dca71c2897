"""Makes the test family ``tally`` known to the library, in this process."""

import contextlib
from pathlib import Path

import pytest

import planning
from planning import families
from planning.artifacts import codec

FOLDER = Path(__file__).parent / "families"
CREATED = "2026-01-02T03:04:05Z"


def register(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planning, "__path__", [*planning.__path__, str(FOLDER)])
    patch.setattr(families, "NAMES", (*families.NAMES, "tally"))
    patch.setitem(codec.FAMILY_IDS, "tally", 250)


@contextlib.contextmanager
def registered():
    with pytest.MonkeyPatch.context() as patch:
        register(patch)
        yield


def tally_plan(label: str = "a", cuts: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)):
    return families.family("tally").room("plan").Plan(label, cuts)


def publish(store, signer, plan=None, stream="ticks", **options):
    given = {"created_at": CREATED, "family": "tally"} | options
    return store.publish(stream, plan or tally_plan(), signer=signer, **given)
