import asyncio
import time

import pytest
from prometheus_client import CollectorRegistry

from highwater.runtime.loop_lag import LoopLagMonitor


class Recorder:
    def __init__(self):
        self.events = []

    def error(self, event, **fields):
        self.events.append((event, fields))


@pytest.fixture
async def watched():
    registry, log = CollectorRegistry(), Recorder()
    monitor = LoopLagMonitor("demo", registry, log, stall_s=0.1)
    await monitor.start()
    yield registry, log
    await monitor.stop()


async def test_a_blocked_loop_is_measured_and_its_stack_reported_once(watched):
    registry, log = watched
    await asyncio.sleep(0)

    def block_the_loop():
        time.sleep(0.45)

    block_the_loop()
    async with asyncio.timeout(5):
        while registry.get_sample_value("highwater_demo_loop_lag_distribution_seconds_count") == 0:
            await asyncio.sleep(0.01)
    assert registry.get_sample_value("highwater_demo_loop_lag_distribution_seconds_sum") > 0.2
    assert [event for event, _ in log.events] == ["event_loop_stalled"]
    assert "block_the_loop" in log.events[0][1]["stack"]
