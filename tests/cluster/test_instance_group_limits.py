"""The limit of an instance's groups as real clients meet it, wherever the coordinators are."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.runner import MODES, Up, run
from tests.support.process import free_port_block

PATIENCE_S = 60.0
TOPIC = "orders"
GROUPS = 6
"""Over as many coordinators as there are nodes."""
NEW_GROUPS = 9
REPORTS_S = 3.0
"""In which each node has told the quota service and heard of the others."""


@pytest.fixture(params=["embedded", pytest.param("combined3", marks=pytest.mark.full)])
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    made = Up(request.param, tmp_path)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(params=["default", "shop"])
def bootstrap(request: pytest.FixtureRequest, up: Up) -> str:
    """Of an instance that has a topic, and its limit of groups reached."""
    if request.param == "default":
        address = up.bootstrap
        change(up, "set", "default", "--groups", str(GROUPS))
    else:
        port = free_port_block(up.node_count + 1)
        address = f"127.0.0.1:{port}"
        change(up, "create", "shop", "--port", str(port), "--groups", str(GROUPS))
    client = AdminClient({"bootstrap.servers": address})
    topic = NewTopic(TOPIC, 1, min(3, MODES[up.mode][0]))
    until(lambda: TOPIC in client.create_topics([topic]) and has_topic(client))
    for number in range(GROUPS):
        until(lambda number=number: commit(address, f"group-{number}") is None)
    time.sleep(REPORTS_S)
    return address


def test_new_groups_are_refused_and_others_go_on(up: Up, bootstrap: str) -> None:
    assert_new_groups_are_refused(bootstrap)
    for protocol in ("classic", "consumer"):
        assert "Policy violation" in joins(bootstrap, "unheard-of", protocol)
        assert joins(bootstrap, f"group-{protocol == 'classic':d}", protocol) == ""

    if up.mode != "embedded":
        os.kill(up.pids()["quota"], signal.SIGKILL)
        assert_new_groups_are_refused(bootstrap)
        up.stop()
        up.start()
        until(lambda: commit(bootstrap, "group-0") is None)
        time.sleep(REPORTS_S)
        assert_new_groups_are_refused(bootstrap)

    client = AdminClient({"bootstrap.servers": bootstrap})
    client.delete_consumer_groups(["group-3"])["group-3"].result(PATIENCE_S)
    until(lambda: commit(bootstrap, "group-3") is None)

    name = "default" if bootstrap == up.bootstrap else "shop"
    change(up, "set", name, "--groups", "none")
    until(lambda: commit(bootstrap, "late") is None)


def assert_new_groups_are_refused(bootstrap: str) -> None:
    """At all coordinators."""
    codes = {commit(bootstrap, f"new-{number}") for number in range(NEW_GROUPS)}
    assert codes == {KafkaError.POLICY_VIOLATION}
    assert commit(bootstrap, "group-1") is None


def change(up: Up, *arguments: str) -> None:
    done = run("instance", *arguments, "--data-dir", str(up.data_dir))
    assert done.returncode == 0, done.stderr


def has_topic(client: AdminClient) -> bool:
    try:
        return TOPIC in client.list_topics(timeout=5).topics
    except KafkaException:
        return False  # Its port is about to open.


def commit(bootstrap: str, group: str) -> int | None:
    """Commits for a group without members; the error code."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    else:
        return None
    finally:
        consumer.close()


def joins(bootstrap: str, group: str, protocol: str) -> str:
    """A member joins and waits for its partition; the error that it is told, or nothing."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
    consumer = Consumer(settings)
    deadline = time.monotonic() + PATIENCE_S
    try:
        consumer.subscribe([TOPIC])
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is not None:
                return str(message.error())
            if consumer.assignment():
                return ""
        raise AssertionError(f"{group} got neither a partition nor an error")
    finally:
        consumer.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)
