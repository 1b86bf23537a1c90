import asyncio

import pytest

from highwater.embed.up.announce import Announced


class Service:
    def __init__(self, error=None):
        self.failed = asyncio.get_running_loop().create_future()
        self.calls = []
        self._error = error

    async def start(self):
        self.calls.append("start")
        if self._error is not None:
            raise self._error

    async def stop(self):
        self.calls.append("stop")


async def test_announces_after_the_start(capsys):
    service = Service()
    announced = Announced(
        service,
        lambda: ("host", 5) if service.calls else ("too", 0),
        lambda: {"gateway-1": "a:1", "quota": "b:2"} if service.calls else {},
    )
    await announced.start()
    assert capsys.readouterr().out.splitlines() == [
        "Metrics of gateway-1: http://a:1/metrics",
        "Metrics of quota: http://b:2/metrics",
        "Highwater is ready on host:5",
    ]
    await announced.stop()
    assert service.calls == ["start", "stop"]
    assert announced.failed is service.failed


async def test_announces_nothing_if_the_start_fails(capsys):
    announced = Announced(Service(OSError("no")), lambda: ("host", 5), dict)
    with pytest.raises(OSError, match="no"):
        await announced.start()
    assert capsys.readouterr().out == ""
