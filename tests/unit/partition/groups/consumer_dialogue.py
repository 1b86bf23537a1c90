"""Members of the consumer protocol that talk with one shard."""

from __future__ import annotations

from collections.abc import Iterable

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.consumer.assignors.types import MemberAssignment
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.requests import HeartbeatRequest, HeartbeatResponse
from highwater.partition.groups.key import GroupKey
from tests.unit.partition.groups.dialogue import Dialogue, key
from tests.unit.partition.groups.topics import FakeTopics, topic_id


class Talk(Dialogue):
    """A dialogue with two topics, "t" of six partitions and "u" of two."""

    topics: FakeTopics

    def __init__(self, **options: object) -> None:
        options.setdefault("topics", FakeTopics(t=6, u=2))
        super().__init__(**options)  # type: ignore[arg-type]

    def send(
        self, member_id: str, epoch: int, *, group: str | GroupKey = "g", **fields: object
    ) -> HeartbeatResponse:
        """One heartbeat with just these fields; the invariants are checked after it."""
        request = HeartbeatRequest(
            key=key(group),
            member_id=member_id,
            epoch=epoch,
            client_id="c",
            client_host="/127.0.0.1",
            **fields,  # type: ignore[arg-type]
        )
        response = self.shard.consumer_heartbeat(request, self.moment)
        self.settle()
        return response

    def group(self, name: str | GroupKey = "g") -> ConsumerGroup:
        return self.shard.durable.consumer_groups[key(name)]

    def topics_change(self) -> None:
        self.shard.topics_changed(self.moment)
        self.wait(100)


class Consumer:
    """A client that does what it is told: it gives up at once what it has lost."""

    def __init__(self, talk: Talk, member_id: str, *topics: str, **fields: object) -> None:
        self.talk = talk
        self.id = member_id
        self.fields = {"rebalance_timeout_ms": 60_000, **fields}
        if topics or "topic_regex" not in fields:
            self.fields["topic_names"] = frozenset(topics or ("t",))
        self.instance_id = fields.get("instance_id")
        self.epoch = 0
        self.held: MemberAssignment = NOTHING

    def join(self) -> HeartbeatResponse:
        self.epoch, self.held = 0, NOTHING
        return self._take(self.talk.send(self.id, 0, owned=NOTHING, **self.fields))

    def beat(self, **fields: object) -> HeartbeatResponse:
        """A heartbeat that says what the member holds."""
        if self.instance_id is not None:
            fields["instance_id"] = self.instance_id
        return self._take(self.talk.send(self.id, self.epoch, owned=self.held, **fields))

    def leave(self, epoch: int = -1) -> HeartbeatResponse:
        return self.talk.send(self.id, epoch, instance_id=self.instance_id)

    def _take(self, response: HeartbeatResponse) -> HeartbeatResponse:
        if response.error is ErrorCode.NONE:
            self.epoch = response.epoch
            if response.assignment is not None:
                self.held = response.assignment
        return response

    @property
    def partitions(self) -> dict[str, tuple[int, ...]]:
        """{the first letter of a topic: partitions}"""
        return {topic[:1].decode(): parts for topic, parts in self.held.items()}


def settle(consumers: Iterable[Consumer], rounds: int = 4) -> None:
    """Heartbeats of all, until nothing moves any more."""
    for _ in range(rounds):
        for consumer in consumers:
            assert consumer.beat().error is ErrorCode.NONE


def holding(**partitions: tuple[int, ...]) -> MemberAssignment:
    return {topic_id(name): parts for name, parts in partitions.items()}
