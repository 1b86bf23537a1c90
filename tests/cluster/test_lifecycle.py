"""Start, serve, stop, start again; and the errors of a second or mistaken start."""

from __future__ import annotations

import os
import signal
import socket
import time

import pytest

from highwater.embed.clients.kafka_client import KafkaClient
from tests.cluster.runner import HOST, Up, is_alive, run
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.process import accepts_connections, wait_until

ALL_MODES = pytest.mark.parametrize(
    "up",
    ["embedded", "combined3", pytest.param("nodes3", marks=pytest.mark.full)],
    indirect=True,
)


@ALL_MODES
def test_records_survive_a_clean_stop(up: Up):
    with KafkaClient(up.bootstrap) as client:
        client.create_topic("numbers", partitions=6, replication_factor=1, configs={})
    producer = NumberedProducer(up.bootstrap, "numbers")
    producer.send(500)
    producer.flush()
    assert not producer.errors
    assert len(producer.acknowledged) == 500
    assert sorted(read_all(up.bootstrap, "numbers", 6)) == sorted(producer.acknowledged)

    children = up.pids() if up.node_count > 1 else {}
    assert up.stop() == 0
    assert not any(is_alive(pid) for pid in children.values())
    assert not accepts_connections(HOST, up.port)
    assert not (up.data_dir / "controller.address").exists()

    up.start()
    assert sorted(read_all(up.bootstrap, "numbers", 6)) == sorted(producer.acknowledged)
    with KafkaClient(up.bootstrap) as client:
        assert len(client.metadata().brokers) == up.node_count


@ALL_MODES
def test_stops_within_seconds_with_clients_connected(up: Up):
    producer = NumberedProducer(up.bootstrap, "numbers")
    producer.send(10)
    producer.flush()
    idle = socket.create_connection((HOST, up.port), timeout=5)
    began = time.monotonic()
    assert up.stop() == 0
    assert time.monotonic() - began < 15
    idle.close()


@ALL_MODES
def test_second_start_on_the_same_data_directory(up: Up):
    second = run(*up.command(port=up.port + 100)[1:])
    assert second.returncode == 2
    assert second.stderr.startswith(f"highwater: data directory {up.data_dir} is in use")
    assert f"(pid {up.process.pid})" in second.stderr
    assert second.stderr.count("\n") == 1
    with KafkaClient(up.bootstrap) as client:
        assert len(client.metadata().brokers) == up.node_count


@pytest.mark.parametrize("up", ["embedded"], indirect=True)
@pytest.mark.parametrize("flags", [(), ("--nodes", "2")])
def test_port_in_use(up: Up, flags: tuple[str, ...], tmp_path):
    other = run(
        "up", *flags, "--host", HOST, "--port", str(up.port), "--data-dir", str(tmp_path / "other")
    )
    assert other.returncode == 2
    assert other.stderr == (
        f"highwater: address {HOST}:{up.port} is already in use by another process\n"
    )
    assert other.stdout == ""


@pytest.mark.parametrize("up", ["separate"], indirect=True)
def test_killed_command_takes_its_processes_along(up: Up):
    children = up.pids()
    assert sorted(children) == ["controller", "gateway-1", "partition-1", "quota"]
    up.kill()
    wait_until(
        lambda: not any(is_alive(pid) for pid in children.values()),
        timeout_s=10,
        what="the end of all processes",
    )
    # The next start succeeds, on the same ports and data.
    up.start()
    assert up.stop() == 0


@pytest.mark.parametrize("up", ["separate"], indirect=True)
@pytest.mark.parametrize("name", ["controller", "quota", "gateway-1"])
def test_killed_service_is_started_again(up: Up, name: str):
    producer = NumberedProducer(up.bootstrap, "numbers")
    producer.send(50)
    producer.flush()
    before = up.pids()
    os.kill(before[name], signal.SIGKILL)
    wait_until(
        lambda: up.pids().get(name, before[name]) != before[name],
        timeout_s=15,
        what=f"a new {name}",
    )
    producer.send(50)
    producer.flush()
    assert not producer.errors
    # What needs the controller works again too.
    _create_when_possible(up, "after")
    after = up.pids()
    assert {key: pid for key, pid in after.items() if key != name} == {
        key: pid for key, pid in before.items() if key != name
    }


def _create_when_possible(up: Up, topic: str) -> None:
    deadline = time.monotonic() + 20
    while True:
        created = run("topic", "create", topic, "--bootstrap", up.bootstrap)
        if created.returncode == 0:
            return
        assert time.monotonic() < deadline, created.stderr
        time.sleep(0.3)
