"""Clients of an instance meet nothing of another one: ids, fetch sessions, users; and gateways on one host."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.fetch import (
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
)
from highwater.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestMetadataRequestTopic,
)
from highwater.kafka.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionProduceData,
    ProduceRequestTopicProduceData,
)
from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.model.instances import InstanceListener
from tests.cluster.runner import HOST, MODES, Up, run
from tests.cluster.test_instance_doors import Doors, confluent_reads, listens, metadata
from tests.conformance.topics import unique_name
from tests.support.process import ManagedProcess, free_port_block, wait_until
from tests.support.wire import RawConnection, only

PATIENCE_S = 30.0
BYTES = 1 << 20


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("combined3", marks=pytest.mark.full)]
)
def doors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Doors]:
    """Beside the default listener there is one with logins."""
    secure = free_port_block(MODES[request.param][0] + 1)
    settings = (
        f"gateway.listeners.secure.port={secure}",
        'gateway.listeners.secure.sasl_mechanisms=["SCRAM-SHA-256"]',
    )
    up = Up(
        request.param,
        tmp_path_factory.mktemp("isolation"),
        extra=tuple(part for setting in settings for part in ("--set", setting)),
    )
    up.start()
    try:
        yield Doors(up=up)
    finally:
        up.stop()


def create(doors: Doors, name: str, topic: str) -> bytes:
    """Makes a topic in an instance; returns its id."""
    admin = AdminClient({"bootstrap.servers": doors.bootstrap(name)})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(PATIENCE_S)
    asked = MetadataRequest(topics=[MetadataRequestMetadataRequestTopic(name=topic)])
    with RawConnection(HOST, doors.port(name)) as client:
        return bytes(only(client.ask(asked, 12).topics).topic_id)


def fetch(topic_id: bytes, *, session_id: int = 0, epoch: int = -1) -> FetchRequest:
    partition = FetchRequestFetchPartition(partition=0, fetch_offset=0, partition_max_bytes=BYTES)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=BYTES,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchRequestFetchTopic(topic_id=topic_id, partitions=[partition])],
    )


def produce(topic_id: bytes) -> ProduceRequest:
    builder = RecordBatchBuilder()
    builder.append(key=None, value=b"v", timestamp_ms=int(time.time() * 1000))
    data = ProduceRequestPartitionProduceData(0, builder.build())
    return ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequestTopicProduceData(topic_id=topic_id, partition_data=[data])],
    )


def test_an_id_of_another_instance_is_unknown(doors: Doors) -> None:
    owner, other, topic = doors.make(), doors.make(), unique_name("ids")
    topic_id = create(doors, owner, topic)
    codes = {}
    for name in (owner, other):
        with RawConnection(HOST, max(doors.ports(name))) as client:
            stored = only(only(client.ask(produce(topic_id), 13).responses).partition_responses)
            read = only(only(client.ask(fetch(topic_id), 16).responses).partitions)
            codes[name] = (stored.error_code, read.error_code)
    assert codes[owner] == (0, 0)
    assert codes[other] == (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)


def test_a_fetch_session_of_another_instance_is_not_found(doors: Doors) -> None:
    owner, other = doors.make(), doors.make()
    topic_id = create(doors, owner, unique_name("sessions"))
    with (
        RawConnection(HOST, max(doors.ports(owner))) as mine,
        RawConnection(HOST, max(doors.ports(other))) as theirs,
    ):
        made = mine.ask(fetch(topic_id, epoch=0), 16)
        assert made.session_id
        again = FetchRequest(
            max_wait_ms=0, max_bytes=BYTES, session_id=made.session_id, session_epoch=1
        )
        assert theirs.ask(again, 16).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert mine.ask(again, 16).error_code == 0


def test_a_user_logs_in_to_the_own_instance_only(doors: Doors, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    first, second = doors.make(), doors.make()
    ports = {}
    for name in (first, second):
        ports[name] = doors.block().port
        secure = InstanceListener(port=ports[name], listener="secure")
        doors.change(name, listeners=(*doors.instances[name].listeners, secure))
        wait_until(
            lambda name=name: listens(ports[name]), timeout_s=PATIENCE_S, what="a port with logins"
        )
    done = run(
        *("user", "set", "alice", "--mechanism", "SCRAM-SHA-256", "--instance", first),
        *("--password-file", str(password), "--data-dir", str(doors.up.data_dir)),
    )
    assert done.returncode == 0, done.stderr
    topic = unique_name("logins")
    create(doors, first, topic)
    create(doors, second, topic)
    errors: list[KafkaError] = []
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "secret",
        "error_cb": errors.append,
    }
    refused = Producer(settings | {"bootstrap.servers": f"{HOST}:{ports[second]}"})
    refused.produce(topic, b"not stored")
    deadline = time.monotonic() + PATIENCE_S
    while not errors and time.monotonic() < deadline:
        refused.poll(0.2)
    assert KafkaError._AUTHENTICATION in {error.code() for error in errors}
    refused.purge()
    allowed = Producer(settings | {"bootstrap.servers": f"{HOST}:{ports[first]}"})
    allowed.produce(topic, b"stored")
    assert allowed.flush(PATIENCE_S) == 0
    assert confluent_reads(doors.bootstrap(first), topic) == [b"stored"]
    assert confluent_reads(doors.bootstrap(second), topic) == []


@pytest.mark.full
def test_gateways_on_one_host_shift_the_ports_of_instances(tmp_path: Path) -> None:
    up = Up("separate", tmp_path, extra=("--gateways", "2"))
    up.port = free_port_block(4)
    up.process = ManagedProcess("gateways", up.command(), log_path=tmp_path / "cluster.log")
    up.start()
    try:
        doors, topic = Doors(up=up), unique_name("shifted")
        block = InstanceListener(port=free_port_block(4))
        name = doors.make(block=block)
        shifted = block.port + 2
        wait_until(lambda: listens(shifted), timeout_s=PATIENCE_S, what="the second gateway's port")
        told = metadata(block.port)
        assert told == metadata(shifted)
        assert told < {block.port + 1, shifted + 1}, "node 1 is at one of the two gateways"
        create(doors, name, topic)
        producer = Producer({"bootstrap.servers": f"{HOST}:{shifted}"})
        producer.produce(topic, b"v")
        assert producer.flush(PATIENCE_S) == 0
        assert confluent_reads(doors.bootstrap(name), topic) == [b"v"]
    finally:
        up.stop()
