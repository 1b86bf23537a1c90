"""The scenarios that every client must pass, written once."""

from __future__ import annotations

import contextlib

from highwater.kafka.records.compression import Compression
from tests.conformance.client import CLIENT_TIMEOUT_S, Client, Member
from tests.conformance.messages import (
    Message,
    Stored,
    assert_read_back,
    assert_same,
    make_messages,
    split,
)
from tests.conformance.protocol.requests import batches_of, fetch
from tests.conformance.topics import committed_offsets, make_topic
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection

_PARTITIONS = 3
_COUNT = 60
_GROUP_PARTITIONS = 4


def produce_and_read_back(
    producer: Client,
    cluster: Cluster,
    topic: str,
    *,
    codec: str = "none",
    acks: str = "all",
    consumer: Client | None = None,
) -> None:
    """One client writes with a codec and acks; another one, or the same, reads all unchanged."""
    consumer = consumer or producer
    partitions = _PARTITIONS if producer.picks_partition else 1
    make_topic(cluster.bootstrap, topic, partitions=partitions)
    writes = producer.writes & consumer.writes if consumer is not producer else producer.writes
    sent = split(make_messages(_COUNT, writes=writes), partitions)
    for partition, messages in sent.items():
        producer.produce(
            cluster.bootstrap,
            topic,
            messages,
            partition=partition if producer.picks_partition else None,
            codec=codec,
            acks=acks,
        )
    stored = consumer.consume(cluster.bootstrap, topic, partitions=partitions, count=_COUNT)
    assert_read_back(sent, stored)
    # Clients send a batch uncompressed if compression does not make it smaller. That happens to
    # batches of one or two records, which a busy machine makes of records that usually share one.
    assert codecs_on_the_wire(cluster, topic, partitions) - {"none"} == {codec} - {"none"}


def codecs_on_the_wire(cluster: Cluster, topic: str, partitions: int) -> set[str]:
    """The codecs of the stored batches: a client that misreads the versions sends none."""
    found = set()
    with RawConnection.to(cluster.bootstrap) as connection:
        for partition in range(partitions):
            part = fetch(connection, topic, 0, partition=partition)
            found |= {Compression(view.compression).name.lower() for view in batches_of(part)}
    return found


def read_from_timestamp(
    consumer: Client, cluster: Cluster, topic: str, *, producer: Client
) -> None:
    """A start timestamp gives each partition's first record at or after it, and all later ones."""
    assert "timestamps" in producer.writes
    make_topic(cluster.bootstrap, topic, partitions=2)
    messages = make_messages(_COUNT, writes=frozenset({"timestamps"}))
    sent = split(messages, 2)
    for partition, part in sent.items():
        producer.produce(cluster.bootstrap, topic, part, partition=partition, codec="lz4")
    middle = messages[_COUNT // 2].timestamp_ms
    assert middle is not None
    # Between two records, so that the broker has to find the next one, not an equal one.
    start = middle - 300
    expected = {p: [m for m in part if _timestamp(m) >= start] for p, part in sent.items()}
    stored = consumer.consume(
        cluster.bootstrap,
        topic,
        partitions=2,
        count=sum(len(part) for part in expected.values()),
        start=start,
    )
    for partition, part in expected.items():
        records = [record for record in stored if record.partition == partition]
        first = len(sent[partition]) - len(part)
        assert [record.offset for record in records] == list(range(first, first + len(part)))
        for message, record in zip(part, records, strict=True):
            assert_same(message, record)


def _timestamp(message: Message) -> int:
    assert message.timestamp_ms is not None
    return message.timestamp_ms


def group_of_two(client: Client, cluster: Cluster, topic: str, *, producer: Client) -> None:
    """Two members share a topic, one leaves, and a later one resumes at the committed offsets."""
    bootstrap, group = cluster.bootstrap, f"group-of-{topic}"
    make_topic(bootstrap, topic, partitions=_GROUP_PARTITIONS)
    sender = _Sender(producer, bootstrap, topic)
    with contextlib.ExitStack() as members:
        first = client.join(bootstrap, group, topic)
        members.callback(first.close)
        sender.send(40)
        _wait_for_records([first], 40)
        assert first.assigned() == frozenset(range(_GROUP_PARTITIONS))
        _commit(first, bootstrap, group, sender)

        second = client.join(bootstrap, group, topic)
        members.callback(second.close)
        _wait_for_sharing(first, second)
        sender.send(40)
        _wait_for_records([first, second], 80)
        assert len(second.received()) == 20, "a member with half of the partitions reads half"
        _commit(first, bootstrap, group, sender, both=second)

        second.close()
        wait_until(
            lambda: len(first.assigned()) == _GROUP_PARTITIONS,
            timeout_s=CLIENT_TIMEOUT_S,
            what="the remaining member gets all partitions",
        )
        sender.send(20)
        _wait_for_records([first, second], 100)
        first.close()

        expected = sender.sent[-20:]
        if first.commits_by_itself:
            _wait_for_commits(bootstrap, group, sender)
            expected = sender.send(20)
        third = client.join(bootstrap, group, topic)
        members.callback(third.close)
        _wait_for_records([third], 20)
        assert _values(third.received()) == {message.value for message in expected}
        third.close()
    everything = first.received() + second.received()
    assert len({(r.partition, r.offset) for r in everything}) == 100, "each record was read once"


class _Sender:
    """Distributes messages to the partitions and remembers them."""

    def __init__(self, producer: Client, bootstrap: str, topic: str) -> None:
        self._producer = producer
        self._bootstrap = bootstrap
        self._topic = topic
        self.sent: list[Message] = []

    def send(self, count: int) -> list[Message]:
        messages = [
            Message(key=b"k", value=f"message {len(self.sent) + index}".encode())
            for index in range(count)
        ]
        for partition, part in split(messages, _GROUP_PARTITIONS).items():
            self._producer.produce(self._bootstrap, self._topic, part, partition=partition)
        self.sent += messages
        return messages


def _values(stored: list[Stored]) -> set[bytes | None]:
    return {record.message.value for record in stored}


def _commit(
    member: Member, bootstrap: str, group: str, sender: _Sender, *, both: Member | None = None
) -> None:
    for one in (member, both):
        if one is not None:
            one.commit()
    if not (member.commits_by_itself and both is not None):
        _wait_for_commits(bootstrap, group, sender)


def _wait_for_commits(bootstrap: str, group: str, sender: _Sender) -> None:
    wait_until(
        lambda: sum(committed_offsets(bootstrap, group).values()) == len(sender.sent),
        timeout_s=CLIENT_TIMEOUT_S,
        what=f"{len(sender.sent)} records committed by {group}",
        poll_s=0.2,
    )


def _wait_for_records(members: list[Member], count: int) -> None:
    got = 0

    def enough() -> bool:
        nonlocal got
        got = sum(len(member.received()) for member in members)
        return got >= count

    try:
        wait_until(enough, timeout_s=CLIENT_TIMEOUT_S, what=f"{count} records")
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {got} came") from error
    assert got == count, f"{got} records instead of {count}"


def _wait_for_sharing(first: Member, second: Member) -> None:
    half = _GROUP_PARTITIONS // 2

    def shared() -> bool:
        mine, other = first.assigned(), second.assigned()
        return len(mine) == half and len(other) == half and not mine & other

    wait_until(shared, timeout_s=CLIENT_TIMEOUT_S, what="two members share the partitions")
