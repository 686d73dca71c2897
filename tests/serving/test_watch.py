"""However many wait, one looks; and nobody looks when nobody waits."""

from __future__ import annotations

import asyncio
import threading

import pytest
from headgate_serve.watch import Watch, newest

from planning.artifacts import Reader
from planning.errors import NoPlan, StoreError


class Counting(Reader):
    """Counts how often it is looked at, and can be made to fail or to hang."""

    looks = 0
    failure = None
    gate = None

    def newest(self, stream):
        self.looks += 1
        if self.gate is not None:
            self.gate.wait(20)
        if self.failure is not None:
            raise self.failure
        return super().newest(stream)


@pytest.fixture
def reader(place):
    return Counting(place.store.root)


def test_a_thousand_who_wait_share_one_look(place, reader):
    async def run():
        watch = Watch(reader, 0.05)
        known = [newest(reader, "ticks").tag]
        waiting = [asyncio.create_task(watch.newest("ticks", known, 30)) for _ in range(1000)]
        await asyncio.sleep(0.3)
        looks = reader.looks
        place.publish()
        found = await asyncio.gather(*waiting)
        assert {answer.version for answer in found} == {2}
        assert len({id(answer.body) for answer in found}) == 1
        await asyncio.sleep(0.1)
        after = reader.looks
        await asyncio.sleep(0.2)
        assert reader.looks == after  # nobody waits any longer
        return looks

    assert asyncio.run(run()) < 20


def test_one_who_leaves_does_not_end_the_wait_of_others(place, reader):
    async def run():
        watch = Watch(reader, 0.02)
        known = [newest(reader, "ticks").tag]
        leaving, staying = (asyncio.create_task(watch.newest("ticks", known, 30)) for _ in range(2))
        await asyncio.sleep(0.1)
        leaving.cancel()
        await asyncio.sleep(0.1)
        place.publish()
        return (await staying).version

    assert asyncio.run(run()) == 2


def test_a_failing_store_ends_the_wait_and_an_empty_one_does_not(place, reader):
    async def run():
        watch = Watch(reader, 0.02)
        known = [newest(reader, "ticks").tag]
        waiting = asyncio.create_task(watch.newest("ticks", known, 30))
        with pytest.raises(NoPlan):
            await watch.newest("nothing", (), 0.2)
        reader.failure = StoreError("gone")
        with pytest.raises(StoreError, match="gone"):
            await waiting
        reader.failure = None
        assert (await watch.newest("ticks", (), 30)).version == 1

    asyncio.run(run())


def test_a_store_that_hangs_does_not_hang_those_who_wait(reader):
    async def run():
        reader.gate = threading.Event()
        try:
            with pytest.raises(StoreError, match="does not answer in time"):
                await Watch(reader).newest("ticks", (), 0.1)
        finally:
            reader.gate.set()

    asyncio.run(run())
