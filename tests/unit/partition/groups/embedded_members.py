"""Members of the classic protocol that embed the consumer protocol, as Java's consumers do."""

from __future__ import annotations

from struct import pack

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import consumer_protocol_assignment as assignment_codec
from highwater.kafka.messages import consumer_protocol_subscription as subscription_codec
from tests.unit.partition.groups.consumer_dialogue import Talk
from tests.unit.partition.groups.dialogue import Call

VERSION = 3


def subscription(*topics: str, rack: str | None = None, **owned: tuple[int, ...]) -> bytes:
    message = subscription_codec.ConsumerProtocolSubscription(
        topics=topics,
        owned_partitions=[
            subscription_codec.ConsumerProtocolSubscriptionTopicPartition(name, partitions)
            for name, partitions in owned.items()
        ],
        rack_id=rack,
    )
    return pack(">h", VERSION) + subscription_codec.encode(message, VERSION)


def assignment(user_data: bytes | None = None, **partitions: tuple[int, ...]) -> bytes:
    message = assignment_codec.ConsumerProtocolAssignment(
        assigned_partitions=[
            assignment_codec.ConsumerProtocolAssignmentTopicPartition(name, list(parts))
            for name, parts in partitions.items()
        ],
        user_data=user_data,
    )
    return pack(">h", VERSION) + assignment_codec.encode(message, VERSION)


def assigned(data: bytes) -> dict[str, tuple[int, ...]]:
    decoded = assignment_codec.decode(data, 2, VERSION)
    return {part.topic: tuple(part.partitions) for part in decoded.assigned_partitions}


class Embedded:
    """A client of the classic protocol; it gives up what it is told to before it joins again."""

    def __init__(self, talk: Talk, *topics: str, instance_id: str | None = None) -> None:
        self.talk = talk
        self.topics = topics or ("t",)
        self.instance_id = instance_id
        self.id = ""
        self.generation = -1
        self.held: dict[str, tuple[int, ...]] = {}

    def send_join(self, member_id: str | None = None) -> Call:
        metadata = subscription(*self.topics, **self.held)
        return self.talk.join(
            self.id if member_id is None else member_id,
            instance_id=self.instance_id,
            protocols=(("range", metadata),),
            rebalance_ms=20_000,
        )

    def join(self) -> None:
        """Join a consumer group, which answers at once, and get the assignment."""
        call = self.send_join()
        if call.error is ErrorCode.MEMBER_ID_REQUIRED:
            call = self.send_join(call.join.member_id)
        assert call.error is ErrorCode.NONE
        assert call.join.leader == ""
        self.id, self.generation = call.join.member_id, call.join.generation
        self.sync()

    def sync(self) -> None:
        call = self.talk.sync(
            self.id, self.generation, instance_id=self.instance_id, protocol_type="consumer"
        )
        assert call.error is ErrorCode.NONE, call.error
        assert call.after_commit
        self.held = assigned(call.sync.assignment)

    def beat(self) -> ErrorCode:
        """A heartbeat; the member joins again if it is told to."""
        error = self.talk.heartbeat(self.id, self.generation, instance_id=self.instance_id)
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        return error


def stable_classic(talk: Talk, *topics: str) -> tuple[Embedded, Embedded]:
    """A stable classic group of two, each with half of "t"."""
    pair = Embedded(talk, *topics), Embedded(talk, *topics)
    calls = [talk.join(call.join.member_id, protocols=_offer(topics), rebalance_ms=20_000)
             for call in [_first(talk, topics), _first(talk, topics)]]  # fmt: skip
    talk.run_due()
    ids = [call.join.member_id for call in calls]
    waiting = talk.sync(ids[1], 1)
    talk.sync(ids[0], 1, {ids[0]: assignment(t=(0, 1, 2)), ids[1]: assignment(t=(3, 4, 5))})
    assert waiting.error is ErrorCode.NONE
    for member, member_id, held in zip(pair, ids, ((0, 1, 2), (3, 4, 5)), strict=True):
        member.id, member.generation, member.held = member_id, 1, {"t": held}
    return pair


def _first(talk: Talk, topics: tuple[str, ...]) -> Call:
    return talk.join(protocols=_offer(topics), rebalance_ms=20_000)


def _offer(topics: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    return (("range", subscription(*(topics or ("t",)))),)
