import asyncio
import json
import os
import sys
from dataclasses import dataclass

import pytest

from highwater.embed.supervisor import supervisor as module
from highwater.embed.supervisor.plan import ClusterPlan
from highwater.embed.supervisor.supervisor import Supervisor
from highwater.embed.up.options import UpOptions
from highwater.model.errors import HighwaterError, UsageError
from highwater.runtime.logging import silent_logger


@dataclass
class Spec:
    """Stands for a ProcessSpec: a Python program instead of a service."""

    name: str
    section: str
    code: str
    metrics: str | None = None

    def command(self, options, *, parent):
        assert parent == os.getpid()
        return [sys.executable, "-c", self.code]


def sleeper(path, name):
    """Writes its name when it gets a signal to end."""
    return (
        "import signal, time\n"
        "def end(*_):\n"
        f"    with open({str(path)!r}, 'a') as out: out.write({name + ' '!r})\n"
        "    raise SystemExit\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"open({str(path) + '.' + name!r}, 'w').close()\n"
        "time.sleep(60)\n"
    )


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A cluster of four sleepers, ready once each has written its file."""
    names = [("controller", "controller"), ("quota", "quota"), ("partition-1", "partition"),
             ("gateway-1", "gateway")]  # fmt: skip
    order = tmp_path / "order"
    specs = [Spec(name, section, sleeper(order, name)) for name, section in names]
    specs[1].metrics = "m:1"
    plan = ClusterPlan(
        controller_address="c:1", gateway_addresses=[("127.0.0.1", 1)], processes=specs
    )
    monkeypatch.setattr(module, "make_plan", lambda _options, _data: plan)
    monkeypatch.setattr(
        module,
        "serves_all_nodes",
        lambda *_: all((tmp_path / f"order.{name}").exists() for name, _ in names),
    )
    return tmp_path, specs


def make(path):
    return Supervisor(UpOptions(data_dir=path / "data", separate=True), silent_logger())


async def test_stops_in_order(world):
    path, _ = world
    supervisor = make(path)
    await supervisor.start()
    pids = json.loads((path / "data" / "pids.json").read_text())
    assert list(pids) == ["controller", "quota", "partition-1", "gateway-1"]
    assert (path / "data" / "controller.address").read_text() == "c:1"
    assert json.loads((path / "data" / "metrics.json").read_text()) == {"quota": "m:1"}
    assert supervisor.metrics_addresses == {"quota": "m:1"}
    assert supervisor.addresses == [("127.0.0.1", 1)]
    await supervisor.stop()
    assert (path / "order").read_text().split() == [
        "gateway-1", "partition-1", "quota", "controller",
    ]  # fmt: skip
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not (path / "data" / "pids.json").exists()


async def test_nodes_with_gateways_stop_before_what_they_need(world):
    path, specs = world
    specs[2] = Spec("node-1", "broker", sleeper(path / "order", "partition-1"))
    specs.pop()
    (path / "order.gateway-1").touch()
    supervisor = make(path)
    await supervisor.start()
    await supervisor.stop()
    assert (path / "order").read_text().split() == ["partition-1", "quota", "controller"]


async def test_process_that_cannot_start_ends_the_start(world):
    path, specs = world
    specs[1].code = "raise SystemExit(2)"
    supervisor = make(path)
    async with asyncio.timeout(20):
        with pytest.raises(UsageError, match="quota could not start"):
            await supervisor.start()
        await supervisor.stop()


async def test_cluster_that_does_not_get_ready(world, monkeypatch):
    path, _ = world
    monkeypatch.setattr(module, "serves_all_nodes", lambda *_: False)
    monkeypatch.setattr(module, "READY_TIMEOUT_S", 0.3)
    supervisor = make(path)
    async with asyncio.timeout(20):
        with pytest.raises(HighwaterError, match="not ready after"):
            await supervisor.start()
        await supervisor.stop()


async def test_process_that_gives_up_later_fails_the_cluster(world, monkeypatch):
    path, _ = world
    monkeypatch.setattr("highwater.embed.supervisor.child.RESTARTS_MAX", 0)
    supervisor = make(path)
    await supervisor.start()
    pids = json.loads((path / "data" / "pids.json").read_text())
    os.kill(pids["partition-1"], 9)
    async with asyncio.timeout(20):
        with pytest.raises(HighwaterError, match="partition-1 died 1 times"):
            await supervisor.failed
        await supervisor.stop()


async def test_full_disk_does_not_end_the_cluster(world, monkeypatch):
    """A node dies of the full disk and is started again; the file of pids is for tools only."""
    path, _ = world
    supervisor = make(path)
    await supervisor.start()
    pids = json.loads((path / "data" / "pids.json").read_text())

    def full(_pids):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(supervisor._data_dir, "write_pids", full)
    (path / "order.partition-1").unlink()
    os.kill(pids["partition-1"], 9)
    async with asyncio.timeout(20):
        while not (path / "order.partition-1").exists():
            assert not supervisor.failed.done()
            await asyncio.sleep(0.05)
        await supervisor.stop()
    assert (path / "order").read_text().split()[0] == "gateway-1"


async def test_a_process_that_cannot_be_killed_does_not_change_the_order_of_others(
    world, monkeypatch
):
    path, _ = world
    supervisor = make(path)
    await supervisor.start()
    [gateway] = supervisor._children["gateway"]
    stop = gateway.stop

    async def hangs(*, timeout_s):
        await stop(timeout_s=timeout_s)
        raise TimeoutError

    monkeypatch.setattr(gateway, "stop", hangs)
    async with asyncio.timeout(20):
        await supervisor.stop()
    assert (path / "order").read_text().split()[1:] == ["partition-1", "quota", "controller"]
