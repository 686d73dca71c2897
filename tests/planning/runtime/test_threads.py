"""One shedder for several threads, and in an event loop."""

import asyncio
import threading
import time

import numpy as np

from planning.runtime import FeedForwardThrottle, RunningShedder

BATCH = np.array([0.1, 0.3, 0.6, 0.9])


def test_threads_share_a_shedder_and_nothing_is_lost(house, client):
    house.publish("one")
    client.poll()
    shedder = RunningShedder(client, FeedForwardThrottle(1000.0, slack=500))
    kept = [0] * 8
    begun = time.monotonic()

    def work(number):
        for _ in range(200):
            kept[number] += int(shedder.offer(np.tile(BATCH, 5)).sum())
            kept[number] += int(shedder.offer_one(0.9))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for number in range(10):
        house.publish(f"version {number}")
        client.poll()
    for thread in threads:
        thread.join()
    elapsed = time.monotonic() - begun
    counters = shedder.counters
    assert counters.offered == 8 * 200 * 21
    assert counters.kept == sum(kept) <= 1000 * elapsed + 500
    assert counters.errors == 0
    assert int(shedder.shedder.counters.offered) == counters.offered
    shedder.offer(BATCH)
    assert shedder.version == 11


def test_an_event_loop_is_not_blocked(house, client):
    """Plans are made ready on the client's thread; large batches go to a thread of the pool."""
    house.publish("one")

    async def main():
        with client:
            shedder = RunningShedder(client, load=0.5)
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.001)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            while not shedder.version:
                shedder.offer(BATCH)
                await asyncio.sleep(0.001)
            before = ticks
            masks = await asyncio.gather(
                *(asyncio.to_thread(shedder.offer, np.tile(BATCH, 50_000)) for _ in range(4))
            )
            ticking.cancel()
            return ticks - before, [int(mask.sum()) for mask in masks]

    ticks, kept = asyncio.run(main())
    assert ticks > 0
    assert kept == [100_000] * 4
