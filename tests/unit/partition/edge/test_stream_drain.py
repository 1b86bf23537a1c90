"""The end of all streams of a node: their order, and the limits of waits."""

import asyncio

from highwater.partition.edge.stream_drain import StreamDrain


class Streams:
    """Streams that end some time after `stop`."""

    def __init__(self, drain: StreamDrain) -> None:
        self.drain = drain
        self.events: list[str] = []

    async def serve(self, name: str, *, takes_s: float, last: bool = False) -> None:
        asked = asyncio.Event()
        leave = self.drain.register(asked.set, last=last)
        await asked.wait()
        self.events.append(f"{name} asked")
        await asyncio.sleep(takes_s)
        self.events.append(f"{name} ended")
        leave()


async def test_last_streams_end_after_all_others() -> None:
    drain = StreamDrain()
    streams = Streams(drain)
    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        tasks.create_task(streams.serve("replicate", takes_s=0, last=True))
        tasks.create_task(streams.serve("append", takes_s=0.03))
        tasks.create_task(streams.serve("fetch", takes_s=0.01))
        await asyncio.sleep(0)
        assert not drain.ended
        assert await drain.run(2)
    assert drain.ended
    assert streams.events[-2:] == ["replicate asked", "replicate ended"]
    assert streams.events[-3] == "append ended"


async def test_a_node_without_streams_stops_at_once() -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert await StreamDrain().run(10)
    assert loop.time() - began_s < 1


async def test_the_wait_for_a_stream_has_a_limit() -> None:
    drain = StreamDrain()
    leave = drain.register(lambda: None)
    async with asyncio.timeout(5):
        assert not await drain.run(0.05)
    leave()
    assert await drain.run(0.05), "it has ended meanwhile"
