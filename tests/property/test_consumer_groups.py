"""Random histories of a consumer group (KIP-848), checked against its invariants (R11).

Members join, report, change what they read, leave, vanish and come back; topics come, grow and go; rights
change; time passes; the node restarts. After every step the dialogue checks the invariants of all groups.
Here is checked besides what clients hold: nothing that the coordinator has not given them, and in the end
all that may be read, each partition by one.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import USER, Principal, TopicView
from highwater.model.group_config import bounds_of
from highwater.partition.groups.consumer.assignment import NOTHING, pairs_of
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.core.config import GroupConfig
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk
from tests.unit.partition.groups.dialogue import key
from tests.unit.partition.groups.topics import FakeTopics, topic_id

MEMBERS = st.sampled_from(["a", "b", "c", "d"])
TOPICS = st.sampled_from(["t", "u", "v"])
REGEXES = st.sampled_from(["", "t", "[tu]", ".*"])
VIEWS = {
    "a": TopicView(Principal(USER, "alice"), "10.0.0.1", visible_without_acl=True),
    "b": TopicView(Principal(USER, "bob"), "10.0.0.1", visible_without_acl=True),
}
"""What members may describe; others may describe everything."""
INTERVAL_MS = 5_000
ROUNDS = 14
"""Of heartbeats, after which a group that nothing happens to has come to rest: the sessions of those that
vanished end within nine."""


class ConsumerGroupLives(RuleBasedStateMachine):
    @initialize(
        slices=st.sampled_from([1, 100]), interval_ms=st.sampled_from([0, 1_000]), regex=REGEXES
    )
    def start(self, slices: int, interval_ms: int, regex: str) -> None:
        """Two members are there from the start, of which the first may not describe everything."""
        config = GroupConfig(
            initial_rebalance_delay_ms=0,
            expiry_groups_per_slice=slices,
            consumer_bounds=bounds_of({"group.consumer.assignment.interval.ms": str(interval_ms)}),
        )
        self.d = Talk(config=config, topics=FakeTopics(t=3, u=2))
        self.members: dict[str, Consumer] = {}
        """Those that live and have not been told that the group goes on without them."""
        self.epoch = 0
        for member in ("a", "c"):
            self.join(member, {"t"}, regex)

    # ---- what happens ----

    @rule(member=MEMBERS, names=st.sets(TOPICS), regex=REGEXES)
    def join(self, member: str, names: set[str], regex: str) -> None:
        made = Consumer(self.d, member, topic_regex=regex, view=VIEWS.get(member))
        made.fields["topic_names"] = frozenset(names)
        self.members[member] = made
        self._answered(member, made.join())

    @rule()
    def beat(self) -> None:
        for member in list(self.members):
            self._beat(member)

    @rule(member=MEMBERS)
    def beat_one(self, member: str) -> None:
        if member in self.members:
            self._beat(member)

    @rule(member=MEMBERS, names=st.sets(TOPICS), regex=REGEXES)
    def subscribe(self, member: str, names: set[str], regex: str) -> None:
        if member in self.members:
            self._beat(member, topic_names=frozenset(names), topic_regex=regex)

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        if self.members.pop(member, None) is not None:
            self.d.send(member, -1)

    @rule(member=MEMBERS)
    def vanish(self, member: str) -> None:
        """It holds what it has until its session is over, and is heard of no more."""
        self.members.pop(member, None)

    @rule(name=TOPICS, partitions=st.integers(1, 5))
    def topic_grows(self, name: str, partitions: int) -> None:
        known = self.d.topics.by_name(key("g").instance, name)
        if known is None or known.partitions < partitions:
            self.d.topics.set(name, partitions)
            self.d.topics_change()

    @rule(name=TOPICS)
    def topic_goes(self, name: str) -> None:
        if self.d.topics.by_name(key("g").instance, name) is not None:
            self.d.topics.delete(name)
            self.d.topics_change()

    @rule(user=st.sampled_from(["alice", "bob"]), names=st.sets(TOPICS))
    def rights_change(self, user: str, names: set[str]) -> None:
        self.d.topics.hidden[user] = names
        self.d.topics_change()

    @rule(ms=st.sampled_from([0, 1, 999, INTERVAL_MS, 46_000]))
    def wait(self, ms: int) -> None:
        self.d.wait(ms)

    @rule()
    def restart(self) -> None:
        self.d.restart()

    # ---- what must be true ----

    @invariant()
    def nobody_holds_what_another_one_holds(self) -> None:
        group = self._group()
        if group is None:
            return
        for name, client in self.members.items():
            member = group.members.get(name)
            if member is None or member.current.epoch != client.epoch:
                continue  # It has been fenced, or an answer of its is behind: it hears of it.
            given = {*pairs_of(member.current.assigned), *pairs_of(member.current.revoking)}
            assert set(pairs_of(client.held)) <= given, name

    @invariant()
    def epochs_only_grow(self) -> None:
        group = self._group()
        if group is None:
            self.epoch = 0
            return
        assert group.epoch >= self.epoch
        self.epoch = group.epoch

    def teardown(self) -> None:
        if not hasattr(self, "d"):
            return
        for _ in range(ROUNDS):
            for member in list(self.members):
                self._beat(member)
            self.d.wait(INTERVAL_MS)
        group = self._group()
        if group is None or not self.members:
            return
        assert group.members.keys() == self.members.keys()
        self._check_regexes(group)
        held = [pair for one in self.members.values() for pair in pairs_of(one.held)]
        assert len(held) == len(set(held)), "two clients hold the same partition"
        wanted = set()
        for name in group.subscribed_topics():
            topic = self.d.topics.by_name(key("g").instance, name)
            if topic is not None:
                wanted |= {(topic_id(name), number) for number in range(topic.partitions)}
        assert set(held) == wanted, "all that is subscribed to is read"

    def _check_regexes(self, group: ConsumerGroup) -> None:
        for regex, resolved in group.regexes.items():
            readers = [m for m, one in group.members.items() if one.metadata.topic_regex == regex]
            seen = [VIEWS[m].principal.name if m in VIEWS else "" for m in readers]
            allowed = [
                frozenset(
                    name
                    for name in self.d.topics.names(key("g").instance)
                    if name not in self.d.topics.hidden.get(user, ())
                    and (regex == ".*" or name in regex)
                )
                for user in seen
            ]
            assert resolved.topics in allowed, f"{regex} is looked up for one of {readers}"

    # ---- helpers ----

    def _group(self) -> ConsumerGroup | None:
        return self.d.shard.durable.consumer_groups.get(key("g"))

    def _beat(self, member: str, **fields: object) -> None:
        client = self.members[member]
        self._answered(member, client.beat(view=VIEWS.get(member), **fields))

    def _answered(self, member: str, response: object) -> None:
        """Whoever is fenced gives up all it has, and joins anew."""
        code = response.error  # type: ignore[attr-defined]
        if code is ErrorCode.NONE:
            return
        assert code in {
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.FENCED_MEMBER_EPOCH,
        }
        client = self.members[member]
        client.held = NOTHING
        assert client.join().error is ErrorCode.NONE


TestConsumerGroupLives = ConsumerGroupLives.TestCase
TestConsumerGroupLives.settings = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
