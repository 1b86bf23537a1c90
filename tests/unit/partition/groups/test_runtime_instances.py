"""The coordinator of all instances but the default one: equal groups in one shard."""

import asyncio
from functools import partial

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_groups import DeleteGroupsRequest
from highwater.kafka.messages.describe_groups import DescribeGroupsRequest
from highwater.kafka.messages.list_groups import ListGroupsRequest
from highwater.model.cluster import ClusterImage
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.coordinator.core.forgetting import KEYS_PER_SLICE
from highwater.partition.groups.core.config import GroupConfig
from tests.unit.partition.coordinator.memory_log import MemoryLog, MemorySnapshots
from tests.unit.partition.coordinator.waiting import until
from tests.unit.partition.groups.handlers.test_txn_offset_commit import message
from tests.unit.partition.groups.node import Node
from tests.unit.partition.groups.test_runtime import (
    commit,
    committed,
    fetch_all,
    heartbeat,
    join,
    sync,
)

RED, BLUE = InstanceId("red"), InstanceId("blue")

SharedNode = partial(Node, of_default_instance=False)


async def member_of(node, instance):
    """A member that is alone in group "g" of the instance, and has its instance's name assigned."""
    first = await node.ask(join(), 9, instance=instance)
    joined = await node.ask(join(first.member_id), 9, instance=instance)
    assert (joined.error_code, joined.leader) == (0, first.member_id)
    assignment = {first.member_id: instance.encode()}
    synced = await node.ask(sync(first.member_id, 1, assignment), 5, instance=instance)
    assert synced.assignment == instance.encode()
    return first.member_id


async def test_equal_groups_are_apart():
    node = await SharedNode().lead()
    red, blue = await member_of(node, RED), await member_of(node, BLUE)
    await node.ask(commit(5, red, 1), 8, instance=RED)
    assert committed(await node.ask(fetch_all(), 7, instance=RED)) == {("t", 0): 5}
    assert committed(await node.ask(fetch_all(), 7, instance=BLUE)) == {}
    assert (await node.ask(heartbeat(blue, 1), 4, instance=BLUE)).error_code == 0
    crossed = await node.ask(heartbeat(blue, 1), 4, instance=RED)
    assert crossed.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_only_the_own_groups_are_listed_described_and_deleted():
    node = await SharedNode().lead()
    for instance, groups in ((RED, ("g", "only-red")), (BLUE, ("g",))):
        for group in groups:
            await node.ask(commit(1, group=group), 8, instance=instance)
    for instance, names in ((RED, {"g", "only-red"}), (BLUE, {"g"}), (InstanceId("x"), set())):
        listed = await node.ask(ListGroupsRequest(), 4, partition=-1, instance=instance)
        assert {group.group_id for group in listed.groups} == names
    request = DescribeGroupsRequest(groups=["only-red"])
    (unknown,) = (await node.ask(request, 6, instance=BLUE)).groups
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request = DeleteGroupsRequest(groups_names=["g", "only-red"])
    deleted = await node.ask(request, 2, instance=BLUE)
    assert [one.error_code for one in deleted.results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert committed(await node.ask(fetch_all(), 7, instance=RED)) == {("t", 0): 1}
    assert committed(await node.ask(fetch_all(), 7, instance=BLUE)) == {}


@pytest.mark.parametrize("stops", [False, True])
async def test_the_next_coordinator_has_both(stops):
    """From the log, or from the snapshot of a clean stop."""
    log, snapshots = MemoryLog(), MemorySnapshots()
    node = await SharedNode(log, snapshots).lead()
    await node.ask(commit(1), 8, instance=RED)
    await node.ask(commit(2), 8, instance=BLUE)
    if stops:
        await node.coordinator.stop()
    assert snapshots.saves == stops
    heir = await SharedNode(log, snapshots).lead(epoch=2)
    assert committed(await heir.ask(fetch_all(), 7, instance=RED)) == {("t", 0): 1}
    assert committed(await heir.ask(fetch_all(), 7, instance=BLUE)) == {("t", 0): 2}
    assert {key.instance for key, *_ in heir.coordinator.committed_offsets()} == {RED, BLUE}


async def test_a_deleted_topic_takes_the_offsets_of_its_instance_alone():
    node = await SharedNode().lead()
    for instance in (RED, BLUE):
        await node.ask(commit(1), 8, instance=instance)
    node.coordinator.topics_deleted(RED, frozenset({"t"}))
    assert committed(await node.ask(fetch_all(), 7, instance=RED)) == {}
    assert committed(await node.ask(fetch_all(), 7, instance=BLUE)) == {("t", 0): 1}


async def test_the_shard_depends_on_instance_and_group():
    node = await SharedNode(partitions=2).lead(0, 1)
    places = {coordinator_place(InstanceId(f"i{n}"), "g", 2) for n in range(20)}
    assert places == {0, 1}
    for number in range(4):
        instance = InstanceId(f"i{number}")
        place = coordinator_place(instance, "g", 2)
        await node.ask(commit(number), 8, partition=place, instance=instance)
        request = DescribeGroupsRequest(groups=["g"])
        (group,) = (await node.ask(request, 6, partition=-1, instance=instance)).groups
        assert group.error_code == 0, "found without its partition"


async def test_the_default_instance_is_not_served_here():
    node = await SharedNode().lead()
    node.coordinator.follow(ClusterImage(revision=1, cluster_id="c"))
    refused = node.submit(commit(1), 8, instance=DEFAULT_INSTANCE)
    assert refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def image(node, *instances, removed=()):
    """The node has taken its roles in an image with these instances."""
    node.coordinator.purge.follow(instances, frozenset(removed))
    node.coordinator.purge.applied()


def whose(node):
    """The instances that have something here."""
    (shard,) = node.coordinator._hosts.shards()
    return {record.key.instance for record in shard.durable.records()} | {
        key.instance for key in shard.groups
    }


async def both_in(log, snapshots=None):
    node = SharedNode(log, snapshots)
    image(node, RED, BLUE)
    await node.lead()
    for instance in (RED, BLUE):
        await member_of(node, instance)
        await node.ask(commit(1, group="simple"), 8, instance=instance)
    return node


async def test_the_groups_of_a_purged_instance_go_and_those_of_others_stay():
    log = MemoryLog()
    node = await both_in(log)
    image(node, BLUE)
    refused = node.submit(commit(2), 8, instance=RED)
    assert refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await until(lambda: whose(node) == {BLUE})
    image(node, RED, BLUE)
    listed = await node.ask(ListGroupsRequest(), 4, partition=-1, instance=RED)
    assert listed.groups == []
    assert committed(await node.ask(fetch_all("simple"), 7, instance=RED)) == {}
    assert committed(await node.ask(fetch_all("simple"), 7, instance=BLUE)) == {("t", 0): 1}
    await node.ask(commit(7), 8, instance=RED)
    heir = SharedNode(log)
    image(heir, RED, BLUE)
    await heir.lead(epoch=2)
    assert committed(await heir.ask(fetch_all(), 7, instance=RED)) == {("t", 0): 7}
    assert committed(await heir.ask(fetch_all("simple"), 7, instance=RED)) == {}
    assert committed(await heir.ask(fetch_all("simple"), 7, instance=BLUE)) == {("t", 0): 1}


@pytest.mark.parametrize("stops", [False, True])
async def test_the_next_leader_removes_what_was_purged_before_it_led(stops):
    log, snapshots = MemoryLog(), MemorySnapshots()
    node = await both_in(log, snapshots)
    if stops:
        await node.coordinator.stop()
    heir = SharedNode(log, snapshots)
    image(heir, BLUE)
    await heir.lead(epoch=2)
    await until(lambda: whose(heir) == {BLUE})
    last = SharedNode(log, snapshots)
    image(last, BLUE)
    await last.lead(epoch=3)
    assert whose(last) == {BLUE}, "the tombstones are in the log"


async def test_an_instance_that_goes_while_its_shard_is_loaded():
    log = MemoryLog()
    await both_in(log)
    heir = SharedNode(log)
    image(heir, RED, BLUE)
    heir.coordinator.become_leader(0, 2)
    image(heir, BLUE)
    await heir.lead(epoch=2)
    await until(lambda: whose(heir) == {BLUE})


async def test_a_shard_is_purged_in_slices_and_calls_are_handled_meanwhile():
    node = SharedNode(config=GroupConfig(initial_rebalance_delay_ms=0))
    image(node, RED, BLUE)
    await node.lead()
    for number in range(KEYS_PER_SLICE + 1):
        sent = node.submit(commit(1, group=f"g{number}"), 8, instance=RED)
    await until(lambda: sent.done)
    image(node, BLUE)
    (shard,) = node.coordinator._hosts.shards()
    await until(lambda: len(shard.forgetting) == 1)
    image(node, RED, BLUE)
    refused = node.submit(ListGroupsRequest(), 4, partition=-1, instance=RED)
    assert refused.code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "a part of the former one is there"
    await node.ask(commit(1), 8, instance=BLUE)
    await until(lambda: not len(shard.forgetting))
    listed = await node.ask(ListGroupsRequest(), 4, partition=-1, instance=RED)
    assert listed.groups == []


async def test_nothing_is_removed_while_the_log_refuses_appends():
    log = MemoryLog()
    node = await both_in(log)
    log.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    (shard,) = node.coordinator._hosts.shards()
    image(node, BLUE)
    await asyncio.sleep(0.05)
    assert whose(node) == {RED, BLUE}
    log.refuse_with = 0
    await until(lambda: whose(node) == {BLUE})
    assert list(node.coordinator._hosts.shards()) == [shard], "no reload"


async def test_a_transactions_offsets_that_were_being_verified_come_too_late():
    node = SharedNode()
    image(node, RED)
    await node.lead()
    node.verifier.answers = False
    sent = node.submit(message(), 5, instance=RED)
    ((_, verified),) = node.verifier.asked
    image(node)
    verified(0)
    assert sent.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert whose(node) == set()
