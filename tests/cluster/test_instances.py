"""The life of an instance by the command line, against a running cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse, read_image
from highwater.embed.commands.quota import controller_address
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_transactions import DescribeTransactionsRequest
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.partition.storage.names import partition_directory
from tests.cluster.runner import MODES, Up, run
from tests.support.process import free_port_block, wait_until
from tests.support.wire import RawConnection

PATIENCE_S = 30.0


class Tenants:
    """A cluster, and the command `highwater instance` on it."""

    def __init__(self, up: Up) -> None:
        self.up = up
        self.where = ("--data-dir", str(up.data_dir))

    def port(self) -> int:
        """The first of as many free ports as an instance takes."""
        return free_port_block(self.up.node_count + 1)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run("instance", *arguments, *self.where)

    def done(self, *arguments: str) -> str:
        """What a command says that succeeds."""
        ended = self.call(*arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def refused(self, *arguments: str, code: int = 1) -> str:
        """The one line of a command that is refused."""
        ended = self.call(*arguments)
        assert ended.returncode == code, ended.stdout + ended.stderr
        assert ended.stderr.startswith("highwater: ")
        assert ended.stderr.count("\n") == 1
        return ended.stderr

    def shown(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.done("show", name, "--json"))
        return found

    def names(self) -> list[str]:
        return [one["instance"] for one in json.loads(self.done("list", "--json"))]

    def image(self) -> ClusterImage:
        async def work(endpoints: ControllerEndpoints) -> ClusterImage:
            return await read_image(endpoints, PATIENCE_S)

        return converse(self.address, work)

    @property
    def address(self) -> str:
        return controller_address(None, self.up.data_dir)

    def create_topic(self, instance: str, name: str, partitions: int) -> tuple[int, str]:
        """By the controller's RPC: the code and the message."""

        async def work(endpoints: ControllerEndpoints) -> pb.CreateTopicsResponse:
            wish = pb.NewTopic(name=name, partitions=partitions, replication_factor=1)
            request = pb.CreateTopicsRequest(instance=instance, topics=[wish])
            return await ControllerClient(endpoints).create_topics(request)

        (result,) = converse(self.address, work).results
        return result.error.error_code, result.error.message

    def logs_of(self, instance: str, topic: str, partitions: int) -> list[Path]:
        """Where a topic's logs are, or will be; the first replica is the only one."""
        found = self.image().topic(topic, InstanceId(instance))
        assert found is not None
        return [
            self.up.data_dir
            / f"node-{found.partitions[number].leader}"
            / partition_directory(
                topic, number, topic_id=found.topic_id, instance=InstanceId(instance)
            )
            for number in range(partitions)
        ]


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("combined3", marks=pytest.mark.full)]
)
def tenants(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenants]:
    assert request.param in MODES
    up = Up(request.param, tmp_path_factory.mktemp("instances"))
    up.start()
    try:
        yield Tenants(up)
    finally:
        up.stop()


def test_create_show_and_list(tenants: Tenants) -> None:
    port = tenants.port()
    said = tenants.done(
        *("create", "shop", "--port", str(port), "--advertised-host", "kafka.example"),
        *("--allow", "10.0.0.0/8", "--storage-bytes", "10GB", "--partitions", "6"),
    )
    assert said == f"shop: created, port {port} on listener default\n"
    shop = tenants.shown("shop")
    assert shop["listeners"] == [
        {
            "listener": "default",
            "port": port,
            "advertised_host": "kafka.example",
            "advertised_port": None,
        }
    ]
    assert shop["allowed_networks"] == ["10.0.0.0/8"]
    assert shop["limits"]["storage_bytes"] == 10_000_000_000
    assert shop["limits"]["groups_max"] is None
    assert tenants.names() == ["default", "shop"]
    assert "shop" in tenants.done("list")
    assert "10000000000 B" in tenants.done("show", "shop")
    assert "exists already" in tenants.refused("create", "shop", "--port", str(port))
    assert "of instance shop" in tenants.refused("create", "other", "--port", str(port))
    own = tenants.refused("create", "other", "--port", str(tenants.up.port))
    assert "of listener default of gateway" in own
    assert "no instance id" in tenants.refused("create", "Shop", "--port", str(port))
    assert "bits set behind its prefix" in tenants.refused("set", "shop", "--allow", "10.0.0.1/8")
    tenants.done("delete", "shop", "--yes", "--after", "0")
    wait_until(lambda: tenants.names() == ["default"], timeout_s=PATIENCE_S, what="the purge")


def test_set_keeps_what_is_not_named_and_so_does_quota(tenants: Tenants) -> None:
    port = tenants.port()
    tenants.done("create", "kept", "--port", str(port), "--groups", "4", "--allow-nobody")
    before = tenants.shown("kept")
    tenants.done("set", "kept", "--connections", "7", "--allow-all")
    quota = ("--instance", "kept", "--produce-bytes-per-second", "1000", *tenants.where)
    assert run("quota", "set", *quota).returncode == 0
    after = tenants.shown("kept")
    limits = {**before["limits"], "connections_max": 7, "produce_bytes_per_second": 1000}
    assert after == {**before, "allowed_networks": None, "limits": limits}
    tenants.done("set", "kept", "--groups", "none", "--delete-protection")
    assert tenants.shown("kept")["limits"]["groups_max"] is None
    assert "protected from deletion" in tenants.refused("delete", "kept", "--yes")
    assert "there is no instance" in tenants.refused("set", "nobody", "--groups", "1")
    tenants.done("set", "kept", "--no-delete-protection")
    tenants.done("delete", "kept", "--yes", "--after", "0")


def test_delete_restore_and_purge(tenants: Tenants) -> None:
    """Topics of one name in two instances: those of the deleted one go, with their logs on disk."""
    tenants.done("create", "gone", "--port", str(tenants.port()), "--partitions", "5")
    admin = AdminClient({"bootstrap.servers": tenants.up.bootstrap})
    admin.create_topics([NewTopic("ledger", 2)])["ledger"].result(PATIENCE_S)
    assert tenants.create_topic("gone", "ledger", 3) == (0, "")
    code, why = tenants.create_topic("gone", "more", 3)
    assert code == ErrorCode.POLICY_VIOLATION
    assert "may have 5 partitions and has 3" in why
    theirs = tenants.logs_of("gone", "ledger", 3)
    plain = tenants.logs_of("default", "ledger", 2)

    def have_logs(logs: Sequence[Path]) -> bool:
        return all(log.is_dir() for log in logs)

    wait_until(lambda: have_logs(theirs + plain), timeout_s=PATIENCE_S, what="all logs")
    assert tenants.shown("gone")["topics"] == 1
    names = admin.list_topics(timeout=PATIENCE_S).topics
    assert len(names["ledger"].partitions) == 2, "clients of the default instance see theirs"

    assert "restore` works until" in tenants.done("delete", "gone", "--yes", "--after", "1h")
    assert tenants.shown("gone")["state"] == "deleted"
    assert tenants.create_topic("gone", "late", 1)[0] == ErrorCode.INVALID_REQUEST
    assert tenants.done("restore", "gone") == "gone: restored\n"
    assert tenants.shown("gone")["state"] == "active"
    assert tenants.create_topic("gone", "late", 1) == (0, "")

    assert tenants.done("delete", "gone", "--yes", "--after", "0") == "gone: deleted for good\n"
    wait_until(lambda: "gone" not in tenants.names(), timeout_s=PATIENCE_S, what="the purge")
    left = {(t.instance, t.name) for t in tenants.image().topics.values() if not t.internal}
    assert left == {("default", "ledger")}
    wait_until(
        lambda: not any(log.exists() for log in theirs), timeout_s=PATIENCE_S, what="no logs"
    )
    assert have_logs(plain)
    assert "there is no instance" in tenants.refused("restore", "gone")


def test_a_purge_survives_a_restart(tenants: Tenants) -> None:
    """The instance is deleted, its time comes while nothing runs, and the next start purges it."""
    tenants.done("create", "late", "--port", str(tenants.port()))
    for number in range(5):
        assert tenants.create_topic("late", f"t{number}", 2) == (0, "")
    tenants.done("delete", "late", "--yes", "--after", "100ms")
    tenants.up.stop()
    tenants.up.start()
    wait_until(lambda: "late" not in tenants.names(), timeout_s=PATIENCE_S, what="the purge")
    assert all(topic.instance == "default" for topic in tenants.image().topics.values())


class Client:
    """Clients of an instance with one topic, by its port."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.settings = {"bootstrap.servers": bootstrap}

    def groups(self) -> set[str]:
        admin = AdminClient(self.settings)
        listed = admin.list_consumer_groups().result(PATIENCE_S)
        assert not listed.errors
        return {group.group_id for group in listed.valid}

    def consumer(self, group: str, protocol: str = "classic") -> Consumer:
        return Consumer({**self.settings, "group.id": group, "group.protocol": protocol})

    def commit(self, protocol: str) -> None:
        """As the only member of a group that is named like the protocol."""
        member = self.consumer(protocol, protocol)
        member.subscribe(["ledger"])

        def has_partition() -> bool:
            member.poll(0.1)
            return bool(member.assignment())

        wait_until(has_partition, timeout_s=PATIENCE_S, what=f"a {protocol} member")
        member.commit(offsets=[TopicPartition("ledger", 0, 7)], asynchronous=False)
        member.close()

    def committed(self, group: str) -> int:
        member = self.consumer(group)
        (found,) = member.committed([TopicPartition("ledger", 0)], timeout=PATIENCE_S)
        member.close()
        return int(found.offset)

    def transaction(self) -> tuple[int, str, int, int]:
        """Of the id "payments": error code, state, producer id and epoch."""
        with RawConnection.to(self.bootstrap) as connection:
            request = DescribeTransactionsRequest(transactional_ids=["payments"])
            (found,) = connection.ask(request, 0).transaction_states
        return found.error_code, found.transaction_state, found.producer_id, found.producer_epoch

    def begin(self) -> Producer:
        """A producer whose transaction has a record and a group's offsets, and stays open."""
        producer = Producer({**self.settings, "transactional.id": "payments"})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("ledger", b"open", partition=0)
        member = self.consumer("classic")
        producer.send_offsets_to_transaction(
            [TopicPartition("ledger", 0, 9)], member.consumer_group_metadata(), PATIENCE_S
        )
        member.close()
        assert producer.flush(PATIENCE_S) == 0
        return producer


def test_a_new_instance_of_the_same_id_has_nothing_of_the_former_one(tenants: Tenants) -> None:
    port = tenants.port()
    client = Client(f"127.0.0.1:{port}")

    def create() -> None:
        tenants.done("create", "phoenix", "--port", str(port))
        admin = AdminClient(client.settings)
        admin.create_topics([NewTopic("ledger", 1)])["ledger"].result(PATIENCE_S)

    create()
    for protocol in ("classic", "consumer"):
        client.commit(protocol)
        assert client.committed(protocol) == 7
    producer = client.begin()
    assert client.groups() == {"classic", "consumer"}
    code, state, former_id, _ = client.transaction()
    assert (code, state) == (0, "Ongoing")

    tenants.done("delete", "phoenix", "--yes", "--after", "0")
    wait_until(lambda: "phoenix" not in tenants.names(), timeout_s=PATIENCE_S, what="the purge")
    producer.purge()
    del producer
    create()
    assert client.groups() == set()
    for group in ("classic", "consumer"):
        assert client.committed(group) == -1001
    assert client.transaction()[0] == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    producer = client.begin()
    code, state, later_id, epoch = client.transaction()
    assert (code, state, epoch) == (0, "Ongoing", 0)
    assert later_id != former_id
    producer.abort_transaction(PATIENCE_S)
    tenants.done("delete", "phoenix", "--yes", "--after", "0")
