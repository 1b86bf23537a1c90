"""Random histories of a group, checked against its invariants.

Clients join, sync, heartbeat, leave, vanish and come back late with old ids and generations; time
passes; the node restarts. After every step the dialogue checks the core's invariants, and that no
call is answered twice. A model knows which offsets were acknowledged.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer_core.shard import ConsumerShard
from highwater.partition.groups.core import invariants
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.shard import GroupCoordinatorShard
from highwater.partition.groups.core.values import JoinResponse, LeavingMember, SyncResponse
from tests.unit.partition.groups.dialogue import Call, Dialogue, key

GROUPS = st.sampled_from(["g", "h"])
PROTOCOLS = st.sampled_from(
    [
        (("range", b"1"),),
        (("range", b"2"),),
        (("sticky", b"1"), ("range", b"1")),
        (("range", b"1"), ("sticky", b"3")),
    ]
)
ALIVE_FOR_MS = 40 * 60_000
"""Longer than any wait here: 5 minutes for new members, sessions and rebalances."""


class GroupLives(RuleBasedStateMachine):
    @initialize(
        delay_ms=st.sampled_from([0, 3_000]),
        size_max=st.sampled_from([2, 3, 100]),
    )
    def start(self, delay_ms, size_max):
        config = GroupConfig(initial_rebalance_delay_ms=delay_ms, group_size_max=size_max)
        self.d = Dialogue(config)
        self.calls: list[tuple[str, Call]] = []
        self.known: dict[str, list[tuple[str, str | None]]] = {"g": [], "h": []}
        """Every (member id, instance id) that was handed out."""
        self.generations = {"g": 0, "h": 0}
        self.acknowledged: dict[tuple[str, str, int], int] = {}
        self.next_offset = 1

    # -- calls ----------------------------------------------------------------------------------

    @rule(
        group=GROUPS,
        instance=st.sampled_from([None, None, "s1", "s2"]),
        version=st.sampled_from([3, 5, 9]),
        protocols=PROTOCOLS,
        session_ms=st.sampled_from([6_000, 30_000]),
        rebalance_ms=st.sampled_from([1_000, 20_000, 60_000]),
    )
    def join_anew(self, group, instance, version, protocols, session_ms, rebalance_ms):
        call = self.d.join(
            group=group,
            instance_id=instance,
            version=version,
            protocols=protocols,
            session_ms=session_ms,
            rebalance_ms=rebalance_ms,
        )
        self._sent(group, call, instance)

    @precondition(lambda self: any(self.known.values()))
    @rule(data=st.data(), protocols=PROTOCOLS)
    def join_again(self, data, protocols):
        group, member_id, instance = self._someone(data)
        call = self.d.join(member_id, group=group, instance_id=instance, protocols=protocols)
        self._sent(group, call, instance)

    @precondition(lambda self: any(self.known.values()))
    @rule(data=st.data(), late=st.integers(0, 2))
    def sync(self, data, late):
        group, member_id, instance = self._someone(data)
        present = self.d.shard.groups.get(key(group))
        generation = max(self.generations[group] - late, 0)
        assignment = {m: m.encode() for m in (present.members if present else ())}
        call = self.d.sync(member_id, generation, assignment, group=group, instance_id=instance)
        self._sent(group, call, instance)

    @precondition(lambda self: any(self.known.values()))
    @rule(data=st.data(), late=st.integers(0, 2))
    def heartbeat(self, data, late):
        group, member_id, instance = self._someone(data)
        generation = max(self.generations[group] - late, 0)
        error = self.d.heartbeat(member_id, generation, group=group, instance_id=instance)
        if late and generation < self.generations[group]:
            assert error is not ErrorCode.NONE, "an old generation is never confirmed"

    @precondition(lambda self: any(self.known.values()))
    @rule(data=st.data())
    def leave(self, data):
        group, member_id, instance = self._someone(data)
        self.d.leave(LeavingMember(member_id=member_id, instance_id=instance), group=group)

    @precondition(lambda self: any(call.parked for _, call in self.calls))
    @rule(data=st.data())
    def vanish(self, data):
        parked = [entry for entry in self.calls if entry[1].parked]
        entry = data.draw(st.sampled_from(parked))
        self.calls.remove(entry)
        self.d.vanish(entry[1])
        assert entry[1].parked

    @rule(data=st.data(), group=GROUPS, partition=st.integers(0, 1), late=st.integers(0, 1))
    def commit(self, data, group, partition, late):
        member_id, instance, generation = "", None, -1
        if self.known[group] and data.draw(st.booleans()):
            member_id, instance = data.draw(st.sampled_from(self.known[group]))
            generation = max(self.generations[group] - late, 0)
        offset, self.next_offset = self.next_offset, self.next_offset + 1
        (error,) = self.d.commit(
            {("t", partition): offset}, member_id, generation, group=group, instance_id=instance
        )
        if error is ErrorCode.NONE:
            self.acknowledged[group, "t", partition] = offset

    @rule(group=GROUPS, followers_first=st.booleans(), leader_syncs=st.booleans())
    def whole_round(self, group, followers_first, leader_syncs):
        """All members do what consumers do when a rebalance begins."""
        present = self.d.shard.groups.get(key(group))
        for member in [] if present is None else list(present.members.values()):
            if not member.awaiting_join and member.member_id in present.members:
                protocols = tuple(member.protocols.items())
                call = self.d.join(
                    member.member_id,
                    group=group,
                    instance_id=member.instance_id,
                    protocols=protocols,
                )
                self._sent(group, call, member.instance_id)
        self.d.wait(3_000)
        present = self.d.shard.groups.get(key(group))
        members = [] if present is None else list(present.members.values())
        members.sort(key=lambda m: (m.member_id == present.leader) == followers_first)
        for member in members:
            leads = member.member_id == present.leader
            if leads and not leader_syncs:
                continue
            call = self.d.sync(
                member.member_id,
                present.generation,
                {m: m.encode() for m in present.members},
                group=group,
                instance_id=member.instance_id,
            )
            self._sent(group, call, member.instance_id)

    # -- time and failure -----------------------------------------------------------------------

    @rule(ms=st.sampled_from([0, 1, 999, 3_000, 6_000, 20_000, 61_000]))
    def wait(self, ms):
        self.d.wait(ms)

    @rule()
    def restart(self):
        """Parked calls are lost with the node, and so is an incomplete generation."""
        self.calls.clear()
        self.d.restart()
        for group in self.generations:
            present = self.d.shard.groups.get(key(group))
            self.generations[group] = 0 if present is None else present.generation

    # -- what must hold -------------------------------------------------------------------------

    @invariant()
    def acknowledged_offsets_are_there(self):
        for (group, topic, partition), offset in self.acknowledged.items():
            assert self.d.committed(topic, partition, group=group) == offset

    @invariant()
    def generations_only_grow(self):
        for group, before in self.generations.items():
            present = self.d.shard.groups.get(key(group))
            if present is not None:
                assert present.generation >= before
                self.generations[group] = present.generation

    @invariant()
    def answers_agree_with_the_group(self):
        for group, call in list(self.calls):
            if call.parked:
                continue
            self.calls.remove((group, call))
            if isinstance(call.response, JoinResponse):
                self._check_join(call.response)
            else:
                assert isinstance(call.response, SyncResponse)

    def _check_join(self, response: JoinResponse) -> None:
        if response.error is ErrorCode.NONE:
            assert response.generation >= 1
            members = {m.member_id for m in response.members}
            if members:
                assert response.leader == response.member_id, "members are the leader's to know"
                assert response.member_id in members

    def teardown(self):
        if not hasattr(self, "d"):
            return
        self.d.wait(ALIVE_FOR_MS)
        waiting = [call.name for _, call in self.calls if call.parked]
        assert waiting == [], "every call is answered in the end"
        for group in self.d.shard.groups.values():
            assert not group.members, "nobody lives without heartbeats"
        self.acknowledged_offsets_are_there()
        live = self.d.shard.durable
        self.d.restart()
        again = self.d.shard.durable
        assert (again.images, again.offsets) == (live.images, live.offsets)
        check_prefixes(self.d)

    # -- helpers --------------------------------------------------------------------------------

    def _someone(self, data) -> tuple[str, str, str | None]:
        group = data.draw(st.sampled_from([g for g, known in self.known.items() if known]))
        member_id, instance = data.draw(st.sampled_from(self.known[group]))
        return group, member_id, instance

    def _sent(self, group: str, call: Call, instance: str | None) -> None:
        self.calls.append((group, call))
        present = self.d.shard.groups.get(key(group))
        known = dict.fromkeys(self.known[group])
        if present is not None:
            known.update(dict.fromkeys((m.member_id, m.instance_id)
                                       for m in present.members.values()))  # fmt: skip
            known.update(dict.fromkeys((m, None) for m in present.pending_members))
        self.known[group] = list(known)


def check_prefixes(d: Dialogue, prefixes: int = 8) -> None:
    """A node that loads any prefix of the log gets a valid state."""
    step = max(len(d.log) // prefixes, 1)
    for length in range(0, len(d.log) + 1, step):
        shard = GroupCoordinatorShard(
            d.config,
            lambda: "x",
            lambda state: ConsumerShard(state, d.topics, ASSIGNORS, d.configs.of),
        )
        for record in d.log[:length]:
            shard.replay(record)
        shard.activate(d.moment)
        invariants.check(shard)


TestGroupLives = GroupLives.TestCase
TestGroupLives.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
