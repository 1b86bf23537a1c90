"""Commits are serial, fenced, and never half-published."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from highwater.controller.core.outcome import PENDING_REVISION, Decision, UncleanElection
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.image.writer import Fence, MetadataWriter, left_overs
from highwater.controller.store import keys
from highwater.controller.store.image_store import load
from highwater.controller.store.memory import MemoryStore
from highwater.controller.store.port import (
    OPERATIONS_MAX,
    Compare,
    Delete,
    Operation,
    OutcomeUnknownError,
    Put,
    StoreUnavailableError,
    TxnResult,
)
from highwater.model.cluster import ClusterDelta, ClusterImage, GatewayState
from highwater.model.ids import GatewayId, InstanceId, LeaderEpoch, NodeId
from highwater.model.instances import InstanceState
from highwater.runtime.slices import Slices
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import node_state, topic_state

LARGE = OPERATIONS_MAX + 10
"""More partitions than fit into one transaction."""


class TroubledStore(MemoryStore):
    """Fails the transactions whose numbers are in `troubles`."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.sizes: list[int] = []
        self.troubles: dict[int, Exception] = {}

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        self.count += 1
        if self.count in self.troubles:
            raise self.troubles[self.count]
        self.sizes.append(len(operations))
        return await super().txn(compares, operations)

    def held(self) -> asyncio.Lock:
        """While held, no transaction goes on."""
        return self._writing


class Term:
    """A writer with its fence in place, and its running task."""

    def __init__(self, store: TroubledStore, writer: MetadataWriter) -> None:
        self.store = store
        self.writer = writer
        self.tasks = TaskOwner(lambda _name, _error: None)
        self.running = self.tasks.start(writer.run(), name="writer")


@pytest.fixture
async def term() -> AsyncIterator[Term]:
    store = TroubledStore()
    made = await store.txn((), [Put(key="election/me", value=keys.encode({"address": "a"}))])
    fence = Fence(key="election/me", controller_epoch=made.revision)
    state = load(await store.range(""))
    term = Term(store, MetadataWriter(store, fence, state, slices=Slices(lambda: 0)))
    store.count, store.sizes = 0, []
    yield term
    await term.tasks.close(timeout_s=1)
    term.writer.close()


def instance(name: str) -> Decision[str]:
    state = InstanceState(instance=InstanceId(name))
    return Decision(delta=ClusterDelta(revision=PENDING_REVISION, instances=(state,)), result=name)


async def test_a_commit_is_stored_and_published(term: Term) -> None:
    result, revision = await term.writer.commit(lambda _: instance("a"))
    image = term.writer.image
    assert (result, image.revision) == ("a", revision)
    assert image.controller_epoch == 2
    stored = load(await term.store.range("")).image
    assert stored.instances == image.instances
    assert stored.revision == revision


async def test_unclean_elections_are_logged_once_they_are_stored() -> None:
    store = TroubledStore()
    made = await store.txn((), [Put(key="election/me", value=keys.encode({"address": "a"}))])
    fence = Fence(key="election/me", controller_epoch=made.revision)
    told: list[int] = []
    writer = MetadataWriter(
        store,
        fence,
        load(await store.range("")),
        slices=Slices(lambda: 0),
        on_unclean=lambda some: told.append(len(some)),
    )
    lost = UncleanElection(topic="t", partition=0, leader=NodeId(1), leader_epoch=LeaderEpoch(1))
    tasks = TaskOwner(lambda _name, _error: None)
    tasks.start(writer.run(), name="writer")
    await writer.commit(lambda _: replace(instance("a"), unclean=(lost, lost)))
    assert told == [2]
    await writer.commit(lambda _: instance("b"))
    store.troubles[store.count + 1] = StoreUnavailableError("not now")
    with pytest.raises(StoreUnavailableError):
        await writer.commit(lambda _: replace(instance("c"), unclean=(lost,)))
    assert told == [2]
    await tasks.close(timeout_s=1)
    writer.close()


async def test_decisions_see_what_was_decided_before(term: Term) -> None:
    def one_more(image: ClusterImage) -> Decision[int]:
        number = len(image.instances)
        return replace(instance(f"i{number}"), result=number)  # type: ignore[return-value]

    results = await asyncio.gather(*(term.writer.commit(one_more) for _ in range(20)))
    assert [result for result, _ in results] == list(range(20))
    assert len({revision for _, revision in results}) == 20


async def test_no_change_is_no_transaction(term: Term) -> None:
    before = term.writer.image.revision
    result, revision = await term.writer.commit(lambda _: Decision(delta=None, result=3))
    assert (result, revision, term.store.count) == (3, before, 0)


async def test_large_changes_are_cut_and_published_once(term: Term) -> None:
    topic = topic_state("big", [(1,)] * LARGE)
    changes = aiter(term.writer.hub.changes(0, ""))
    await anext(changes)
    delta = ClusterDelta(revision=PENDING_REVISION, topics=(topic,))
    _, revision = await term.writer.commit(lambda _: Decision(delta=delta, result=None))
    assert len(term.store.sizes) == 2
    assert sum(term.store.sizes) == LARGE + 1 + 2, "the partitions, the topic, and two heads"
    assert (await anext(changes)).revision == revision
    assert load(await term.store.range("")).image.topics == term.writer.image.topics


async def test_a_registrations_epoch_is_its_revision(term: Term) -> None:
    node = replace(node_state(1), node_epoch=PENDING_REVISION)
    decision: Decision[None] = Decision(
        delta=ClusterDelta(revision=PENDING_REVISION, nodes=(node,)),
        result=None,
    )
    _, revision = await term.writer.commit(lambda _: decision)
    assert term.writer.image.nodes[node.node_id].node_epoch == revision
    stored = load(await term.store.range(""))
    assert stored.image.nodes == term.writer.image.nodes


async def test_gateways_of_nodes_follow(term: Term) -> None:
    gateway = GatewayState(gateway_id=GatewayId("g"), host="h", port=1, single_port=False)
    node = node_state(1)
    delta = ClusterDelta(revision=PENDING_REVISION, nodes=(node,), gateways=(gateway,))
    await term.writer.commit(lambda _: Decision(delta=delta, result=None))
    assert term.writer.image.node_gateways == {1: "g"}
    gone = ClusterDelta(revision=PENDING_REVISION, removed_gateways=frozenset({GatewayId("g")}))
    await term.writer.commit(lambda _: Decision(delta=gone, result=None))
    assert term.writer.image.node_gateways == {}


async def test_a_controller_that_lost_the_election_cannot_write(term: Term) -> None:
    await term.store.txn((), [Delete(key="election/me")])
    with pytest.raises(NotActiveError):
        await term.writer.commit(lambda _: instance("a"))
    with pytest.raises(NotActiveError):
        await term.running
    term.writer.close()
    with pytest.raises(NotActiveError):
        await term.writer.commit(lambda _: instance("b"))
    assert load(await term.store.range("")).image.instances == {}


async def test_an_unreachable_store_changes_nothing(term: Term) -> None:
    term.store.troubles[1] = StoreUnavailableError("no")
    with pytest.raises(StoreUnavailableError):
        await term.writer.commit(lambda _: instance("a"))
    assert term.writer.image.instances == {}
    await term.writer.commit(lambda _: instance("b"))
    assert set(term.writer.image.instances) == {"b"}


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (1, OutcomeUnknownError("?")),
        (2, StoreUnavailableError("no")),
        (2, OutcomeUnknownError("?")),
        (2, ValueError("etcd refuses it")),
    ],
)
async def test_half_a_change_ends_the_term(term: Term, number: int, error: Exception) -> None:
    """The caller must not get a retriable error, or it would ask the next controller again."""
    term.store.troubles[number] = error
    delta = ClusterDelta(revision=PENDING_REVISION, topics=(topic_state("big", [(1,)] * LARGE),))
    with pytest.raises(OutcomeUnknownError):
        await term.writer.commit(lambda _: Decision(delta=delta, result=None))
    assert term.writer.image.topics == {}, "nobody has seen any of it"
    with pytest.raises(NotActiveError):
        await term.running


async def test_a_write_under_way_at_the_end_of_the_term_is_uncertain(term: Term) -> None:
    async with term.store.held():
        under_way = term.tasks.start(term.writer.commit(lambda _: instance("a")), name="a")
        waiting = term.tasks.start(term.writer.commit(lambda _: instance("b")), name="b")
        await asyncio.sleep(0.01)
        term.running.cancel()
        with pytest.raises(OutcomeUnknownError):
            await under_way
        term.writer.close()
        with pytest.raises(NotActiveError):
            await waiting


async def test_a_mistake_in_one_decision_harms_no_other(term: Term) -> None:
    def broken(_: ClusterImage) -> Decision[None]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await term.writer.commit(broken)
    assert (await term.writer.commit(lambda _: instance("a")))[0] == "a"


async def test_a_caller_that_leaves_does_not_stop_a_commit(term: Term) -> None:
    caller = term.tasks.start(term.writer.commit(lambda _: instance("a")), name="caller")
    await asyncio.sleep(0)
    caller.cancel()
    await term.writer.commit(lambda _: instance("b"))
    assert set(term.writer.image.instances) == {"a", "b"}


async def test_leftovers_of_a_cut_off_change_are_removed(term: Term) -> None:
    topic = topic_state("a", [(1,)])
    partition = Put(
        key=keys.partition(topic.topic_id, 0), value=keys.encode_partition(topic.partitions[0])
    )
    await term.store.txn((), [partition])
    state = load(await term.store.range(""))
    assert state.orphans == (topic.topic_id,)
    await term.writer.write_aside(left_overs(state))
    assert load(await term.store.range("")).orphans == ()
