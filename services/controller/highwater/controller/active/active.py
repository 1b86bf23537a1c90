"""One term of office of the active controller: everything that exists only while it leads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.controller.active.client_access import ClientAccess
from highwater.controller.active.first_error import first_error
from highwater.controller.active.full_disks import FullDisks
from highwater.controller.active.hand_overs import WAIT_S, HandOvers
from highwater.controller.active.history_compaction import HistoryCompaction
from highwater.controller.active.instances import Instances
from highwater.controller.active.leader_balance import LeaderBalance
from highwater.controller.active.quorum import QuorumView
from highwater.controller.active.store_past import StorePast
from highwater.controller.active.unclean_elections import UncleanElections
from highwater.controller.core.alter_reassignments import Reassignment, alter_reassignments
from highwater.controller.core.change_configs import ConfigWish, altering_configs
from highwater.controller.core.change_isr import IsrResult, Proposal, alter_partitions
from highwater.controller.core.change_topics import Growth, create_partitions, delete_topics
from highwater.controller.core.config_rules import ConfigRules
from highwater.controller.core.create_topics import (
    CreationResult,
    CreationRules,
    TopicDefaults,
    TopicWish,
    create_topics,
)
from highwater.controller.core.decommission import (
    Progress,
    decommissioning,
    recommission,
    remove_node,
)
from highwater.controller.core.elect_leaders import (
    ElectionResult,
    ElectionType,
    Wanted,
    electing_leaders,
    lags,
    leaving,
)
from highwater.controller.core.full_replicas import PAUSE_MS, Avoided, FullReplicas
from highwater.controller.core.hand_over import finding_leader_moves, finding_unasked
from highwater.controller.core.membership import ElectionRules, changing_nodes
from highwater.controller.core.outcome import Decision, Refusal
from highwater.controller.core.partition_index import PartitionIndex, PartitionKey, indexing
from highwater.controller.core.placement import RandomBelow
from highwater.controller.core.raise_epochs import raising_epochs
from highwater.controller.image.writer import Fence, MetadataWriter, left_overs
from highwater.controller.members.members import Members, SessionRules
from highwater.controller.members.peers import is_refused
from highwater.controller.store import keys
from highwater.controller.store.image_store import StoredState, loading, making_operations
from highwater.controller.store.port import MetadataStore, Operation, Put, StoreWentBackError
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import InstanceId, NodeId, TopicId
from highwater.model.steps import Steps
from highwater.model.time import Clock
from highwater.runtime.collector import collection_paused
from highwater.runtime.logging import Logger
from highwater.runtime.slices import Slices

FIRST_WORD_S: Final = 2.0
"""How long a new controller waits to hear from a member before it changes anything."""

PRODUCER_ID_BLOCK: Final = 1_000
"""KIP-730's block; a node that restarts loses what it has not handed out."""

_OPENING: Final = frozenset({"unclean.leader.election.enable", "min.insync.replicas"})
"""Configs that may allow an election, or the end of a reassignment, that was not possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRules:
    """What the composition root passes to a controller, as plain values."""

    topics: TopicDefaults
    sessions: SessionRules
    configs: ConfigRules
    random_below: RandomBelow
    new_topic_id: Callable[[], TopicId]
    new_cluster_id: Callable[[], str]
    new_login_secret: Callable[[], bytes]
    leader_imbalance_check_interval_ms: int = 30_000
    """0 means never."""
    compact_after_ms: int = 0
    """The age at which the store's history is compacted; 0 means never."""


class ActiveController:
    """Serves one term. `open` loads the store; `run` must be running until `close`."""

    def __init__(
        self,
        writer: MetadataWriter,
        members: Members,
        leaders: LeaderBalance,
        compaction: HistoryCompaction,
        elections: ElectionRules,
        rules: ControllerRules,
        past: StorePast,
        unclean: UncleanElections,
        hand_overs: HandOvers,
        full_disks: FullDisks,
        quorum: QuorumView,
        instances: Instances,
        slices: Slices,
        login_secret: bytes,
    ) -> None:
        self._slices = slices
        self.login_secret = login_secret
        self.instances = instances
        self.hand_overs = hand_overs
        self.quorum = quorum
        self.unclean = unclean
        self._writer = writer
        self._leaders = leaders
        self._full_disks = full_disks
        self._compaction = compaction
        self._elections = elections
        self._rules = rules
        self._past = past
        self._loaded_revision = writer.image.revision
        self._heard = asyncio.Event()
        if not writer.image.nodes and not writer.image.gateways:
            self._heard.set()
        self._went_back: asyncio.Future[StoreWentBackError] = (
            asyncio.get_running_loop().create_future()
        )
        self.members = members
        self.client_access = ClientAccess(writer)

    @staticmethod
    async def open(
        store: MetadataStore,
        fence: Fence,
        rules: ControllerRules,
        past: StorePast,
        clock: Clock,
        slices: Slices,
        log: Logger,
    ) -> "ActiveController":
        """Takes over the store's contents, in slices: a standby serves calls meanwhile.

        Raises NotActiveError, StoreUnavailableError, OutcomeUnknownError, StoreWentBackError.
        """
        unclean = UncleanElections(log)
        with collection_paused():
            state = await slices.run(loading(await store.range("")))
            past.check(state.head)
            await past.accept(fence, state.head)
            aside = await slices.run(_first_changes(state, rules))
            if aside:
                first = MetadataWriter(store, fence, state, slices=slices, index=PartitionIndex())
                await first.write_aside(aside)
                state = await slices.run(loading(await store.range("")))
            index = await slices.run(indexing(state.image))
            writer = MetadataWriter(
                store,
                fence,
                state,
                slices=slices,
                index=index,
                on_unclean=unclean.committed,
            )
        # Who wants leaders back sooner gets them back sooner.
        interval_ms = rules.leader_imbalance_check_interval_ms
        pause_ms = min(PAUSE_MS, interval_ms or PAUSE_MS)
        full = FullReplicas(clock.monotonic_ms, pause_ms=pause_ms)
        elections = election_rules(writer, rules.configs, full.avoided)
        members = Members(writer, elections, rules.sessions, clock, log, full)
        hand_overs = HandOvers(writer, elections, lambda: members.offline, log)
        leaders = LeaderBalance(
            writer,
            lambda: members.offline,
            hand_overs,
            interval_ms=interval_ms,
            log=log,
            avoided=full.avoided,
        )
        compaction = HistoryCompaction(
            store,
            from_revision=fence.controller_epoch,
            interval_ms=rules.compact_after_ms,
            log=log,
        )
        return ActiveController(
            writer,
            members,
            leaders,
            compaction,
            elections,
            rules,
            past,
            unclean,
            hand_overs,
            FullDisks(writer, full, elections, lambda: members.offline, hand_overs, slices, log),
            QuorumView(store, fence, writer, members, clock),
            Instances(writer, clock, slices, log),
            slices,
            state.login_secret,
        )

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        return self._writer.image

    @property
    def index(self) -> PartitionIndex:
        """The image's partitions by node."""
        return self._writer.index

    @property
    def sessions(self) -> SessionRules:
        """The session times that members are given."""
        return self._rules.sessions

    async def run(self) -> None:
        """Commits and watches sessions until leadership is lost.

        Raises NotActiveError, StoreWentBackError.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._until_store_went_back(), name="store-went-back")
                tasks.create_task(self._writer.run(), name="metadata-writer")
                await self._wait_for_a_member()
                tasks.create_task(self._settle(), name="settle-elections")
                tasks.create_task(self.members.watch_sessions(), name="watch-sessions")
                tasks.create_task(self.members.close_ended(is_refused), name="close-ended")
                tasks.create_task(self._leaders.run(), name="balance-leaders")
                tasks.create_task(self._full_disks.run(), name="leave-full-disks")
                tasks.create_task(self.hand_overs.run(), name="finish-moves")
                tasks.create_task(self._compaction.run(), name="compact-history")
                tasks.create_task(self.instances.run(), name="purge-instances")
        except ExceptionGroup as group:
            raise first_error(group) from group
        finally:
            self._past.note(self.image.revision)
            self._writer.close()

    @property
    def may_change(self) -> bool:
        """False at first, until a member has said what it has seen, or FIRST_WORD_S has passed."""
        return self._heard.is_set()

    async def check_seen(
        self, revision: int, *, controller_epoch: int = 0, cluster_id: str = ""
    ) -> None:
        """Compares what a member has seen with what this controller found in the store.

        `controller_epoch` belongs to the image with that revision; 0 if not known. If the store
        lacks the image, ends the term and raises StoreWentBackError. Raises NotActiveError if
        another controller leads, and StoreUnavailableError.
        """
        image = self.image
        of_this_term = controller_epoch in (0, image.controller_epoch)
        limit = image.revision if of_this_term else self._loaded_revision
        as_new = revision <= limit and controller_epoch <= image.controller_epoch
        if as_new or cluster_id not in ("", image.cluster_id):
            self._heard.set()
            return
        await self._writer.check_fence()
        self._past.note(revision)
        self._past.distrust(image.controller_epoch)
        error = self._past.error(self.image.revision)
        if not self._went_back.done():
            self._went_back.set_result(error)
        raise error

    def changes(
        self, from_revision: int, cluster_id: str
    ) -> AsyncIterator[ClusterImage | ClusterDelta]:
        """The image, then its changes; ends with NotActiveError."""
        return self._writer.hub.changes(from_revision, cluster_id)

    async def create_topics(
        self, instance: InstanceId, wishes: Sequence[TopicWish], *, validate_only: bool
    ) -> tuple[list[CreationResult], int]:
        """CreateTopics; results and revision."""
        rules = CreationRules(
            defaults=self._rules.topics,
            configs=self._rules.configs,
            random_below=self._rules.random_below,
            new_topic_id=self._rules.new_topic_id,
        )
        if validate_only:
            decision = create_topics(self.image, instance, wishes, rules)
            return decision.result, self.image.revision
        return await self._writer.commit(
            lambda image: create_topics(image, instance, wishes, rules)
        )

    async def delete_topics(
        self, instance: InstanceId, topic_ids: Sequence[TopicId]
    ) -> tuple[list[Refusal | None], int]:
        """DeleteTopics; outcomes and revision."""
        return await self._writer.commit(lambda image: delete_topics(image, instance, topic_ids))

    async def create_partitions(
        self, instance: InstanceId, growths: Sequence[Growth], *, validate_only: bool
    ) -> tuple[list[Refusal | None], int]:
        """CreatePartitions; outcomes and revision."""
        random_below = self._rules.random_below
        if validate_only:
            decision = create_partitions(self.image, instance, growths, random_below)
            return decision.result, self.image.revision
        return await self._writer.commit(
            lambda image: create_partitions(image, instance, growths, random_below)
        )

    async def alter_configs(
        self, instance: InstanceId, wishes: Sequence[ConfigWish], *, validate_only: bool
    ) -> tuple[list[Refusal | None], int]:
        """AlterConfigs; outcomes and revision.

        A topic that may now elect uncleanly does so at once if it has no leader, and a reassignment
        that now has enough replicas in sync is completed.
        """

        def decide(image: ClusterImage) -> Steps[Decision[list[Refusal | None]]]:
            decision = yield from altering_configs(image, instance, wishes, self._rules.configs)
            return Decision(delta=None, result=decision.result) if validate_only else decision

        results, revision = await self._writer.commit_in_steps(decide)
        if validate_only:
            return results, revision
        if any(w.replace_all or _OPENING.intersection((*w.set, *w.deleted)) for w in wishes):
            revision = await self._settle()
        return results, revision

    async def alter_partitions(
        self, leader: NodeId, proposals: Sequence[Proposal]
    ) -> list[IsrResult]:
        """AlterPartition; the caller has checked the leader's node epoch."""
        min_isr = self._elections.min_isr
        results, _ = await self._writer.commit(
            lambda image: alter_partitions(
                image,
                leader,
                proposals,
                min_isr,
                offline=self.members.offline,
                leader_first=True,
            )
        )
        return results

    async def elect_leaders(
        self,
        instance: InstanceId,
        wanted: Wanted | None,
        kind: ElectionType,
        *,
        hand_over_ms: int = 0,
    ) -> tuple[list[ElectionResult], int]:
        """ElectLeaders, of all partitions if `wanted` is None; outcomes and revision.

        Present leaders have `hand_over_ms` to hand over, at most a few seconds.
        """

        def find(image: ClusterImage, some: Wanted | None) -> Steps[Decision[list[ElectionResult]]]:
            return electing_leaders(
                image, instance, some, kind, self._elections, offline=self.members.offline
            )

        def decide(image: ClusterImage, some: Wanted) -> Steps[Decision[list[ElectionResult]]]:
            decision = yield from find(image, some)
            unasked = yield from finding_unasked(image, decision.delta, moves)
            return leaving(decision, unasked) if unasked else decision

        outcomes: dict[PartitionKey, ElectionResult] = {}

        async def elect(keys: frozenset[PartitionKey]) -> None:
            some = [(topic_id, (number,)) for topic_id, number in sorted(keys)]
            results, _ = await self._writer.commit_in_steps(lambda image: decide(image, some))
            outcomes.update(((r.topic_id, r.partition), r) for r in results)

        image = self.image
        asked = await self._slices.run(find(image, wanted))
        moves = await self._slices.run(finding_leader_moves(image, asked.delta))
        lagging = await self.hand_overs.carry_out(moves, elect, min(hand_over_ms / 1000, WAIT_S))
        for key in lagging:
            outcomes.setdefault(key, lags(key))  # Unless the election has said why it was none.
        # Decide now the elections that need no hand-over or were refused.
        rest = [(t, [n for n in numbers if (t, n) not in outcomes]) for t, numbers in wanted or ()]
        if wanted is None:
            rest = [
                (r.topic_id, [r.partition])
                for r in asked.result
                if (r.topic_id, r.partition) not in outcomes
            ]
        results, revision = await self._writer.commit_in_steps(lambda image: decide(image, rest))
        outcomes.update(((r.topic_id, r.partition), r) for r in results)
        return [outcomes[r.topic_id, r.partition] for r in asked.result], revision

    async def alter_reassignments(
        self, instance: InstanceId, wanted: Sequence[Reassignment], *, may_change_factor: bool
    ) -> tuple[list[Refusal | None], int]:
        """AlterPartitionReassignments; outcomes and revision."""
        return await self._writer.commit(
            lambda image: alter_reassignments(
                image,
                instance,
                wanted,
                self._elections,
                offline=self.members.offline,
                may_change_factor=may_change_factor,
                leader_first=True,
            )
        )

    async def decommission(self, node: NodeId, *, moves_max: int) -> tuple[Progress | Refusal, int]:
        """Takes one step to decommission a node; the progress and the revision."""
        return await self._writer.commit_in_steps(
            lambda image: decommissioning(
                image,
                node,
                self._elections,
                index=self.index,
                moves_max=moves_max,
                offline=self.members.offline,
            )
        )

    async def recommission(self, node: NodeId) -> tuple[Progress | Refusal, int]:
        """Takes a node back into use; its progress and the revision."""
        return await self._writer.commit(lambda image: recommission(image, node, index=self.index))

    async def remove_node(self, node: NodeId) -> tuple[Refusal | None, int]:
        """Removes a node for good; the outcome and the revision."""
        sessions = self.members.nodes
        return await self._writer.commit(
            lambda image: remove_node(
                image, node, index=self.index, has_session=sessions.get(node) is not None
            )
        )

    async def allocate_producer_ids(self) -> int:
        """The first id of a new block of PRODUCER_ID_BLOCK."""

        def decide(_: ClusterImage) -> Decision[int]:
            start = self._writer.next_producer_id
            return Decision(delta=None, result=start, next_producer_id=start + PRODUCER_ID_BLOCK)

        start, _ = await self._writer.commit(decide)
        return start

    async def _wait_for_a_member(self) -> None:
        """Waits for a member: live members call at once, and know if the store went back."""
        try:
            async with asyncio.timeout(FIRST_WORD_S):
                await self._heard.wait()
        except TimeoutError:
            self._heard.set()  # No member exists that the store's state could mislead.

    async def _until_store_went_back(self) -> None:
        raise await self._went_back

    async def _settle(self) -> int:
        """Holds elections that the last controller, or changed configs, left open; the revision."""
        _, revision = await self._writer.commit_in_steps(
            lambda image: changing_nodes(
                image,
                (),
                self._elections,
                index=self._writer.index,
                offline=self.members.offline,
            )
        )
        return revision


def _first_changes(state: StoredState, rules: ControllerRules) -> Steps[list[Operation]]:
    """What a term has to write before anything acts on the image."""
    changes: list[Operation] = left_overs(state)
    known_id, secret = state.image.cluster_id, state.login_secret
    if not known_id or not secret:
        cluster = known_id or rules.new_cluster_id(), secret or rules.new_login_secret()
        changes.append(Put(key=keys.CLUSTER, value=keys.encode_cluster(*cluster)))
    if by := state.head.raise_epochs:
        delta = yield from raising_epochs(state.image, by)
        changes += yield from making_operations(state.image, delta)
        lost_blocks = state.next_producer_id + by * PRODUCER_ID_BLOCK
        changes.append(Put(key=keys.PRODUCER_IDS, value=keys.encode({"next": lost_blocks})))
    return changes


def election_rules(writer: MetadataWriter, configs: ConfigRules, avoided: Avoided) -> ElectionRules:
    """min.insync.replicas and unclean.leader.election.enable, topic before cluster."""
    return ElectionRules(
        min_isr=lambda topic: configs.min_isr(topic.configs, writer.image.cluster_configs),
        unclean=lambda topic: configs.unclean(topic.configs, writer.image.cluster_configs),
        avoided=avoided,
    )
