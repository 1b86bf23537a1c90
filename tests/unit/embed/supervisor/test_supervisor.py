import asyncio
import json
import os
import socket
import sys
from dataclasses import dataclass

import pytest

from highwater.embed.supervisor import supervisor as module
from highwater.embed.supervisor.plan import ClusterPlan
from highwater.embed.supervisor.supervisor import Supervisor
from highwater.embed.up.options import UpOptions
from highwater.embed.up.ports import free_ports
from highwater.model.errors import HighwaterError, PortInUseError, UsageError
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


class RecordingLogger:
    """Stands for a logger; keeps events of all levels with their fields."""

    def __init__(self):
        self.lines = []

    def bind(self, **_fields):
        return self

    def warning(self, event, **fields):
        self.lines.append((event, fields))

    info = error = warning


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
        controller_address="c:1",
        gateway_addresses=[("127.0.0.1", 1)],
        processes=specs,
        chosen=frozenset(),
        shared_bootstrap=False,
    )
    monkeypatch.setattr(module, "make_plan", lambda _options, _data: plan)
    monkeypatch.setattr(module, "strange_port", lambda *_, shared: None)
    monkeypatch.setattr(
        module,
        "serves_all_nodes",
        lambda *_: all((tmp_path / f"order.{name}").exists() for name, _ in names),
    )
    return tmp_path, specs


def make(path, log=None):
    return Supervisor(UpOptions(data_dir=path / "data", separate=True), log or silent_logger())


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


@pytest.fixture
def plans(world, monkeypatch):
    """Every plan that is made, with a free port of its own for the quota service, which ends if that is
    taken, or if the port that was asked for is.
    """
    path, specs = world
    asked = free_ports("127.0.0.1", 1)
    made = []

    def make_one(_options, _data):
        port = free_ports("127.0.0.1", 1)
        code = (
            "import socket\n"
            "try:\n"
            f"    held = [socket.create_server(('127.0.0.1', p)) for p in ({port}, {asked})]\n"
            "except OSError: raise SystemExit(2)\n"
        )
        mine = [*specs]
        mine[1] = Spec("quota", "quota", code + sleeper(path / "order", "quota"))
        made.append((port, asked))
        return ClusterPlan(
            controller_address=f"c:{port}",
            gateway_addresses=[("127.0.0.1", 1)],
            processes=mine,
            chosen=frozenset({("127.0.0.1", port)}),
            shared_bootstrap=False,
        )

    monkeypatch.setattr(module, "make_plan", make_one)
    return made


async def test_free_ports_are_chosen_again_if_another_process_takes_one_first(
    world, plans, monkeypatch
):
    path, _ = world
    make_one, others = module.make_plan, []

    def lose_first(*arguments):
        plan = make_one(*arguments)
        if len(plans) < 3:
            others.append(socket.create_server(("127.0.0.1", plans[-1][0])))
        return plan

    monkeypatch.setattr(module, "make_plan", lose_first)
    log = RecordingLogger()
    supervisor = make(path, log)
    async with asyncio.timeout(20):
        await supervisor.start()
    assert len(plans) == 3
    told = [fields for event, fields in log.lines if event == "free_port_lost"]
    assert [each["address"] for each in told] == [f"127.0.0.1:{p}" for p, _ in plans[:2]]
    assert (path / "data" / "controller.address").read_text() == f"c:{plans[2][0]}"
    assert not supervisor.failed.done()
    pids = json.loads((path / "data" / "pids.json").read_text())
    assert list(pids) == ["controller", "quota", "partition-1", "gateway-1"]
    await supervisor.stop()
    for other in others:
        other.close()


async def test_free_ports_are_not_chosen_for_ever(world, plans, monkeypatch):
    path, _ = world
    make_one, others = module.make_plan, []

    def lose(*arguments):
        plan = make_one(*arguments)
        others.append(socket.create_server(("127.0.0.1", plans[-1][0])))
        return plan

    monkeypatch.setattr(module, "make_plan", lose)
    monkeypatch.setattr(module, "PORT_TRIES_MAX", 2)
    supervisor = make(path)
    async with asyncio.timeout(20):
        with pytest.raises(UsageError, match="quota could not start"):
            await supervisor.start()
        await supervisor.stop()
    assert len(plans) == 2
    for other in others:
        other.close()


async def test_a_port_that_was_asked_for_is_not_replaced(world, plans, monkeypatch):
    path, _ = world
    make_one, others = module.make_plan, []

    def lose_asked(*arguments):
        plan = make_one(*arguments)
        others.append(socket.create_server(("127.0.0.1", plans[-1][1])))
        return plan

    monkeypatch.setattr(module, "make_plan", lose_asked)
    supervisor = make(path)
    async with asyncio.timeout(20):
        with pytest.raises(UsageError, match="quota could not start"):
            await supervisor.start()
        await supervisor.stop()
    assert len(plans) == 1
    others[0].close()


@pytest.mark.parametrize("served", [False, True])
async def test_a_bootstrap_port_that_a_strange_process_has_is_told(world, monkeypatch, served):
    """Also if that process is a broker, of a cluster that looks as this one should."""
    path, specs = world
    plan = ClusterPlan(
        controller_address="c:1",
        gateway_addresses=[("127.0.0.1", 1)],
        processes=specs,
        chosen=frozenset(),
        shared_bootstrap=True,
    )
    monkeypatch.setattr(module, "make_plan", lambda *_: plan)
    monkeypatch.setattr(module, "serves_all_nodes", lambda *_: served)
    monkeypatch.setattr(module, "strange_port", lambda *_, shared: 1 if shared else None)
    monkeypatch.setattr(module, "TAKEN_S", 0.3)
    monkeypatch.setattr(module, "TAKEN_LOOK_S", 0.05)
    supervisor = make(path)
    async with asyncio.timeout(20):
        with pytest.raises(PortInUseError, match=r"127\.0\.0\.1:1 is already in use"):
            await supervisor.start()
        await supervisor.stop()


async def test_a_bootstrap_port_that_is_ours_in_the_end_is_not_told(world, monkeypatch):
    path, specs = world
    plan = ClusterPlan(
        controller_address="c:1",
        gateway_addresses=[("127.0.0.1", 1)],
        processes=specs,
        chosen=frozenset(),
        shared_bootstrap=True,
    )
    monkeypatch.setattr(module, "make_plan", lambda *_: plan)
    looks = iter([True, True, True])
    monkeypatch.setattr(module, "strange_port", lambda *_, shared: 1 if next(looks, None) else None)
    supervisor = make(path)
    async with asyncio.timeout(20):
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
