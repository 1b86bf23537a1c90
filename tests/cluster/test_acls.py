"""What ACLs allow real clients, while these are connected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.cluster.runner import HOST, MODES, Up
from tests.cluster.test_logins import Doors
from tests.conformance.topics import unique_name
from tests.support.java_tools import ACLS, java_tool
from tests.support.process import free_port_block

PASSWORD = "secret"
PATIENCE_S = 30.0
USERS = ("alice", "bob")


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("combined3", marks=pytest.mark.full)]
)
def doors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    """Whoever comes without a login is a super user; users come by another listener."""
    directory = tmp_path_factory.mktemp("acls")
    port = free_port_block(MODES[request.param][0] + 1)
    settings = (
        "gateway.authorizer=acl",
        'gateway.super_users=["User:ANONYMOUS"]',
        f"gateway.listeners.secure.port={port}",
        'gateway.listeners.secure.sasl_mechanisms=["SCRAM-SHA-256"]',
    )
    up = Up(
        request.param,
        directory,
        extra=tuple(part for setting in settings for part in ("--set", setting)),
    )
    up.start()
    made = Doors(up=up, secure=f"{HOST}:{port}")
    try:
        for user in USERS:
            made.set_user(user, "SCRAM-SHA-256", PASSWORD, directory)
        yield made
    finally:
        up.stop()


@pytest.fixture
def admin(doors: Doors) -> AdminClient:
    return AdminClient({"bootstrap.servers": doors.up.bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = unique_name("acls")
    admin.create_topics([NewTopic(name, 1)])[name].result(PATIENCE_S)
    return name


def client(doors: Doors, user: str) -> dict[str, Any]:
    return doors.confluent("SCRAM-SHA-256", user, PASSWORD)


def entry(
    name: str,
    operation: AclOperation,
    *,
    user: str = "alice",
    permission: AclPermissionType = AclPermissionType.ALLOW,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    kind: ResourceType = ResourceType.TOPIC,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


def add(admin: AdminClient, *entries: AclBinding) -> None:
    for future in admin.create_acls(list(entries)).values():
        future.result(PATIENCE_S)


def remove(admin: AdminClient, each: AclBinding) -> int:
    """Returns the number of ACLs that were removed."""
    wanted = AclBindingFilter(
        each.restype,
        each.name,
        each.resource_pattern_type,
        each.principal,
        each.host,
        each.operation,
        each.permission_type,
    )
    (future,) = admin.delete_acls([wanted]).values()
    return len(future.result(PATIENCE_S))


def produce(producer: Producer, topic: str) -> int:
    """Sends one record; the code of its outcome, 0 if it was stored."""
    codes: list[int] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        codes.append(0 if error is None else error.code())

    producer.produce(topic, b"value", on_delivery=delivered)
    producer.flush(PATIENCE_S)
    return codes[0]


def until(true: Callable[[], bool]) -> None:
    """Other gateways hear of a change a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_producer_may_write_as_long_as_an_entry_says_so(
    doors: Doors, admin: AdminClient, topic: str
) -> None:
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produce(Producer(client(doors, "alice")), topic) == denied
    allowing = entry(topic, AclOperation.WRITE)
    add(admin, allowing)
    alice = Producer(client(doors, "alice"))
    until(lambda: produce(alice, topic) == 0)
    for _ in range(5):
        assert produce(alice, topic) == 0
    assert produce(Producer(client(doors, "bob")), topic) == denied
    # The connection has sent requests of this shape, which are not asked about one by one.
    assert remove(admin, allowing) == 1
    until(lambda: produce(alice, topic) == denied)


def test_an_entry_that_denies_is_stronger(doors: Doors, admin: AdminClient, topic: str) -> None:
    prefix = topic[:-1]  # Half of it would be the prefix of other tests' topics, now and then.
    add(
        admin,
        entry(prefix, AclOperation.ALL, user="*", pattern=ResourcePatternType.PREFIXED),
        entry(topic, AclOperation.WRITE, user="bob", permission=AclPermissionType.DENY),
    )
    until(lambda: produce(Producer(client(doors, "alice")), topic) == 0)
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produce(Producer(client(doors, "bob")), topic) == denied


def test_a_consumer_needs_its_topic_and_its_group(
    doors: Doors, admin: AdminClient, topic: str
) -> None:
    assert produce(Producer({"bootstrap.servers": doors.up.bootstrap}), topic) == 0
    settings = client(doors, "alice") | {"group.id": topic, "auto.offset.reset": "earliest"}
    add(admin, entry(topic, AclOperation.READ))
    until(lambda: _first(settings, topic) == KafkaError.GROUP_AUTHORIZATION_FAILED)
    add(admin, entry(topic, AclOperation.READ, kind=ResourceType.GROUP))
    until(lambda: _first(settings, topic) == 0)


def _first(settings: dict[str, Any], topic: str) -> int:
    """The code of the first thing that a new consumer gets, 0 for a record."""
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        return 0 if error is None else error.code()
    except KafkaException as raised:
        code: int = raised.args[0].code()
        return code
    finally:
        consumer.close()


@pytest.mark.full
def test_an_expression_matches_no_topic_that_its_user_may_not_describe(
    doors: Doors, admin: AdminClient, topic: str
) -> None:
    """KAFKA-18813, and what it is about when entries come and go."""
    hidden = f"{topic}-hidden"
    admin.create_topics([NewTopic(hidden, 1)])[hidden].result(PATIENCE_S)
    for name in (topic, hidden):
        assert produce(Producer({"bootstrap.servers": doors.up.bootstrap}), name) == 0
    showing = entry(hidden, AclOperation.READ)
    add(
        admin,
        entry(topic, AclOperation.READ),
        entry(topic, AclOperation.READ, kind=ResourceType.GROUP),
    )
    settings = {"group.id": topic, "group.protocol": "consumer", "auto.offset.reset": "earliest"}
    consumer = Consumer(client(doors, "alice") | settings)
    got: set[str] = set()
    errors: list[KafkaError] = []

    def assigned() -> set[str]:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            got.add(message.topic())
        elif message is not None:
            errors.append(message.error())
        return {one.topic for one in consumer.assignment()}

    try:
        consumer.subscribe([f"^{topic}.*"])
        until(lambda: assigned() == {topic} and got == {topic})
        for _ in range(20):
            assert assigned() == {topic}
        alice = AdminClient(client(doors, "alice"))
        (member,) = alice.describe_consumer_groups([topic])[topic].result(PATIENCE_S).members
        assert {one.topic for one in member.assignment.topic_partitions} == {topic}
        add(admin, showing)
        until(lambda: assigned() == {topic, hidden} and got == {topic, hidden})
        assert errors == []
        # Until the group has taken it away, its fetches are refused.
        assert remove(admin, showing) == 1
        until(lambda: assigned() == {topic})
    finally:
        consumer.close()


def test_topics_that_a_user_may_not_describe_are_not_listed(
    doors: Doors, admin: AdminClient, topic: str
) -> None:
    bob = AdminClient(client(doors, "bob"))
    assert topic not in bob.list_topics(timeout=PATIENCE_S).topics
    add(admin, entry(topic, AclOperation.DESCRIBE, user="bob"))
    until(lambda: topic in bob.list_topics(timeout=PATIENCE_S).topics)


def test_only_who_may_alter_the_cluster_may_alter_acls(doors: Doors, topic: str) -> None:
    alice = AdminClient(client(doors, "alice"))
    (future,) = alice.create_acls([entry(topic, AclOperation.ALL)]).values()
    with pytest.raises(KafkaException) as raised:
        future.result(PATIENCE_S)
    assert raised.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.java
def test_kafka_s_tool_adds_lists_and_removes(doors: Doors, topic: str) -> None:
    broker = ("--bootstrap-server", doors.up.bootstrap)
    new = ("--allow-principal", "User:carol", "--topic", topic)
    java_tool(ACLS, *broker, "--add", *new, "--producer")
    listed = java_tool(ACLS, *broker, "--list", "--topic", topic).stdout
    for operation in ("WRITE", "DESCRIBE", "CREATE"):
        line = f"(principal=User:carol, host=*, operation={operation}, permissionType=ALLOW)"
        assert line in listed
    java_tool(ACLS, *broker, "--remove", "--force", "--topic", topic)
    assert "carol" not in java_tool(ACLS, *broker, "--list", "--topic", topic).stdout


def test_acls_are_there_after_a_restart(doors: Doors, admin: AdminClient, topic: str) -> None:
    """They are in the metadata store, whatever characters their names have."""
    name = f"{topic}/ü %2F"
    add(admin, entry(name, AclOperation.READ, user="a/b", kind=ResourceType.GROUP))
    doors.up.stop()
    doors.up.start()
    admin = AdminClient({"bootstrap.servers": doors.up.bootstrap})
    assert remove(admin, entry(name, AclOperation.READ, user="a/b", kind=ResourceType.GROUP)) == 1
    assert remove(admin, entry(name, AclOperation.READ, user="a/b", kind=ResourceType.GROUP)) == 0
