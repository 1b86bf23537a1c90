"""Instances by calls, and what one of them can see and change of another one: nothing."""

from typing import Any

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_access import acl_to_pb, entity_to_pb
from highwater.metadata.watch import ClusterWatch
from highwater.model.cluster import TopicState
from highwater.model.ids import InstanceId
from tests.support.acls import acl
from tests.support.controller import image_when, make_instance, node, topic

SHOP, OTHER = InstanceId("shop"), InstanceId("other")
DAY_MS = 24 * 3600 * 1000


async def create_topic(
    client: ControllerClient, instance: str, wish: pb.NewTopic
) -> tuple[int, str]:
    request = pb.CreateTopicsRequest(instance=instance, topics=[wish])
    (result,) = (await client.create_topics(request)).results
    return result.error.error_code, result.error.message


@pytest.fixture
async def theirs(client: ControllerClient, watch: ClusterWatch) -> TopicState:
    """Topic "t" of "shop" with two partitions on nodes 1 and 2; "other" has none."""
    for number in (1, 2):
        await node(client, number).join()
    await make_instance(client, SHOP)
    await make_instance(client, OTHER)
    replicas = [pb.Assignment(partition=n, replicas=[1, 2]) for n in (0, 1)]
    wish = topic("t", -1, -1, assignments=replicas)
    assert await create_topic(client, SHOP, wish) == (0, "")
    image = await image_when(watch, lambda i: i.topic("t", SHOP))
    found = image.topic("t", SHOP)
    assert found is not None
    return found


async def test_the_life_of_an_instance(client: ControllerClient, watch: ClusterWatch) -> None:
    await make_instance(client, SHOP, partitions_max=4)
    changed = await client.set_instance(
        pb.SetInstanceRequest(instance={"instance": SHOP, "partitions_max": 0})  # type: ignore[arg-type]
    )
    image = await watch.wait_for_revision(changed.revision, 5.0)
    assert image.instances[SHOP].partitions_max == 0
    deleted = await client.delete_instance(pb.DeleteInstanceRequest(instance=SHOP))
    assert deleted.error.error_code == 0
    image = await watch.wait_for_revision(deleted.revision, 5.0)
    assert image.instances[SHOP].purge_at_ms == deleted.purge_at_ms
    hour = pb.DeleteInstanceRequest(instance=SHOP, purge_after_ms=3_600_000)
    sooner = await client.delete_instance(hour)
    assert 22 * 3_600_000 < deleted.purge_at_ms - sooner.purge_at_ms < DAY_MS, "the default: a day"
    restored = await client.restore_instance(pb.RestoreInstanceRequest(instance=SHOP))
    image = await watch.wait_for_revision(restored.revision, 5.0)
    assert image.instances[SHOP].purge_at_ms is None
    assert image.instances[SHOP].partitions_max == 0


async def test_zero_is_at_once_and_not_the_default(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    await make_instance(client, SHOP)
    await client.delete_instance(pb.DeleteInstanceRequest(instance=SHOP, purge_after_ms=0))
    await image_when(watch, lambda image: SHOP not in image.instances)


@pytest.mark.parametrize("method", ["create", "set", "delete", "restore"])
async def test_refusals_are_told(client: ControllerClient, method: str) -> None:
    requests: dict[str, Any] = {
        "create": pb.CreateInstanceRequest(instance={"instance": "_x"}),  # type: ignore[arg-type]
        "set": pb.SetInstanceRequest(instance={"instance": "x"}),  # type: ignore[arg-type]
        "delete": pb.DeleteInstanceRequest(instance="x"),
        "restore": pb.RestoreInstanceRequest(instance="x"),
    }
    error = (await getattr(client, f"{method}_instance")(requests[method])).error
    expected = ErrorCode.INVALID_REQUEST if method == "create" else ErrorCode.RESOURCE_NOT_FOUND
    assert error.error_code == expected
    assert error.message


async def test_nothing_is_added_to_an_instance_that_is_not_there_or_deleted(
    client: ControllerClient, theirs: TopicState
) -> None:
    await client.delete_instance(pb.DeleteInstanceRequest(instance=SHOP))
    refused = int(ErrorCode.INVALID_REQUEST)
    for instance, why in (
        ("shop", "instance 'shop' is deleted"),
        ("nobody", "there is no instance 'nobody'"),
    ):
        assert await create_topic(client, instance, topic("new")) == (refused, why)
        growth = pb.TopicGrowth(topic_id=theirs.topic_id, count=5)
        grown = await client.create_partitions(
            pb.CreatePartitionsRequest(instance=instance, topics=[growth])
        )
        quota = pb.ClientQuotaAlteration(entity=entity_to_pb((("user", "u"),)))
        quotas = await client.alter_client_quotas(
            pb.AlterClientQuotasRequest(instance=instance, alterations=[quota])
        )
        entry = acl("t", instance=InstanceId(instance))
        acls = await client.create_acls(pb.CreateAclsRequest(acls=[acl_to_pb(entry)]))
        kinds = (pb.CONFIG_RESOURCE_TYPE_CLIENT_METRICS, pb.CONFIG_RESOURCE_TYPE_GROUP)
        configs = await client.alter_configs(
            pb.AlterConfigsRequest(
                instance=instance, changes=[pb.ConfigChange(type=kind, name="x") for kind in kinds]
            )
        )
        errors = [*grown.errors, *quotas.errors, *acls.errors, *configs.errors]
        assert [(e.error_code, e.message) for e in errors] == [(refused, why)] * 5
        scram = await client.alter_scram_users(
            pb.AlterScramUsersRequest(
                instance=instance, changes=[pb.ScramChange(user="u", mechanism=1)]
            )
        )
        assert [(u.error.error_code, u.error.message) for u in scram.users] == [(refused, why)]


async def test_topics_of_another_instance_cannot_be_deleted_grown_or_configured(
    client: ControllerClient, watch: ClusterWatch, theirs: TopicState
) -> None:
    unknown = int(ErrorCode.UNKNOWN_TOPIC_ID)
    for instance in ("other", "default"):
        deleted = await client.delete_topics(
            pb.DeleteTopicsRequest(instance=instance, topic_ids=[theirs.topic_id])
        )
        grown = await client.create_partitions(
            pb.CreatePartitionsRequest(
                instance=instance, topics=[pb.TopicGrowth(topic_id=theirs.topic_id, count=5)]
            )
        )
        change = pb.ConfigChange(
            type=pb.CONFIG_RESOURCE_TYPE_TOPIC,
            topic_id=theirs.topic_id,
            set={"retention.ms": "1"},
        )
        configs = await client.alter_configs(
            pb.AlterConfigsRequest(instance=instance, changes=[change])
        )
        errors = [*deleted.errors, *grown.errors, *configs.errors]
        assert [e.error_code for e in errors] == [unknown] * 3
    assert watch.image is not None
    assert watch.image.topics == {theirs.topic_id: theirs}


async def test_partitions_of_another_instance_are_not_elected_or_moved(
    client: ControllerClient, theirs: TopicState
) -> None:
    unknown = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for instance in ("other", "default"):
        named = pb.TopicPartitions(topic_id=theirs.topic_id, partitions=[0])
        elected = await client.elect_leaders(
            pb.ElectLeadersRequest(
                instance=instance, topics=[named], type=pb.ELECTION_TYPE_PREFERRED
            )
        )
        assert [r.error.error_code for r in elected.results] == [unknown]
        everything = pb.ElectLeadersRequest(
            instance=instance, all_partitions=True, type=pb.ELECTION_TYPE_UNCLEAN
        )
        assert not (await client.elect_leaders(everything)).results
        move = pb.PartitionReassignment(topic_id=theirs.topic_id, partition=0, replicas=[2, 1])
        moved = await client.alter_partition_reassignments(
            pb.AlterPartitionReassignmentsRequest(instance=instance, reassignments=[move])
        )
        assert [e.error_code for e in moved.errors] == [unknown]


async def test_names_belong_to_instances(
    client: ControllerClient, watch: ClusterWatch, theirs: TopicState
) -> None:
    """The same names everywhere, also such that would collide in one instance."""
    assert await create_topic(client, OTHER, topic("t")) == (0, "")
    code, _ = await create_topic(client, SHOP, topic("t"))
    assert code == ErrorCode.TOPIC_ALREADY_EXISTS
    image = await image_when(watch, lambda i: i.topic("t", OTHER))
    assert image.topic("t") is None
    mine = image.topic("t", OTHER)
    assert mine is not None
    assert mine.topic_id != theirs.topic_id


async def test_users_acls_and_quotas_of_another_instance_are_not_found(
    client: ControllerClient, theirs: TopicState
) -> None:
    entry = acl("t", instance=SHOP)
    await client.create_acls(pb.CreateAclsRequest(acls=[acl_to_pb(entry)]))
    credential = {"iterations": 5_000, "salt": b"s", "stored_key": b"a", "server_key": b"b"}
    made = pb.ScramChange(user="u", mechanism=1, credential=credential)  # type: ignore[arg-type]
    new = await client.alter_scram_users(pb.AlterScramUsersRequest(instance=SHOP, changes=[made]))
    assert new.users[0].error.error_code == 0
    any_acl = {"resource_type": 1, "pattern_type": 1, "operation": 1, "permission": 1}
    for instance in ("other", "default"):
        removed = await client.delete_acls(
            pb.DeleteAclsRequest(filters=[pb.AclFilter(instance=instance, **any_acl)])
        )
        assert not removed.removals[0].acls
        users = await client.describe_scram_users(pb.DescribeScramUsersRequest(instance=instance))
        assert not users.users
        gone = pb.ScramChange(user="u", mechanism=1)
        answer = await client.alter_scram_users(
            pb.AlterScramUsersRequest(instance=instance, changes=[gone])
        )
        assert answer.users[0].error.error_code == ErrorCode.RESOURCE_NOT_FOUND
    own = await client.describe_scram_users(pb.DescribeScramUsersRequest(instance=SHOP))
    assert [user.user for user in own.users] == ["u"]


async def test_brokers_are_the_default_instances_alone(
    client: ControllerClient, watch: ClusterWatch, theirs: TopicState
) -> None:
    refused = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    changes = [
        pb.ConfigChange(type=pb.CONFIG_RESOURCE_TYPE_NODE, node_id=number, set={"log.roll.ms": "2"})
        for number in (-1, 1)
    ]
    answer = await client.alter_configs(pb.AlterConfigsRequest(instance=SHOP, changes=changes))
    assert [e.error_code for e in answer.errors] == [refused, refused]
    assert "shared with other instances" in answer.errors[0].message
    removed = await client.remove_node(pb.RemoveNodeRequest(node_id=1, instance=SHOP))
    assert removed.error.error_code == refused
    assert watch.image is not None
    assert watch.image.cluster_configs == {}
    assert watch.image.node_configs == {}
    allowed = await client.alter_configs(pb.AlterConfigsRequest(changes=changes))
    assert [e.error_code for e in allowed.errors] == [0, 0]
    alive = await client.remove_node(pb.RemoveNodeRequest(node_id=1))
    assert alive.error.error_code == ErrorCode.INVALID_REQUEST


async def test_limits_hold_for_the_instance_alone(
    client: ControllerClient, theirs: TopicState
) -> None:
    limits = {"instance": SHOP, "partitions_max": 4, "message_bytes_max": 1_000}
    await client.set_instance(pb.SetInstanceRequest(instance=limits))  # type: ignore[arg-type]
    full = int(ErrorCode.POLICY_VIOLATION)
    code, why = await create_topic(client, SHOP, topic("new", 3))
    assert (code, why) == (
        full,
        "instance 'shop' may have 4 partitions and has 2: no 3 more for topic 'new'",
    )
    growths = [pb.TopicGrowth(topic_id=theirs.topic_id, count=count) for count in (5, 4)]
    outcomes = []
    for growth in growths:
        grown = await client.create_partitions(
            pb.CreatePartitionsRequest(instance=SHOP, topics=[growth])
        )
        outcomes.append(grown.errors[0].error_code)
    assert outcomes == [full, 0]
    assert (await create_topic(client, SHOP, topic("new")))[0] == full
    large = {"max.message.bytes": "1001"}
    assert await create_topic(client, OTHER, topic("new", 9, configs=large)) == (0, "")


async def test_the_bound_of_messages_at_create_and_alter(
    client: ControllerClient, theirs: TopicState
) -> None:
    limits = {"instance": SHOP, "message_bytes_max": 1_000}
    await client.set_instance(pb.SetInstanceRequest(instance=limits))  # type: ignore[arg-type]
    refused = (
        int(ErrorCode.INVALID_CONFIG),
        "max.message.bytes is 1001, and instance 'shop' allows 1000 at most",
    )
    large, small = ({"max.message.bytes": text} for text in ("1001", "1000"))
    assert await create_topic(client, SHOP, topic("large", configs=large)) == refused
    assert await create_topic(client, SHOP, topic("small", configs=small)) == (0, "")

    async def alter(values: dict[str, str]) -> tuple[int, str]:
        change = pb.ConfigChange(
            type=pb.CONFIG_RESOURCE_TYPE_TOPIC, topic_id=theirs.topic_id, set=values
        )
        answer = await client.alter_configs(pb.AlterConfigsRequest(instance=SHOP, changes=[change]))
        return answer.errors[0].error_code, answer.errors[0].message

    assert await alter(large) == refused
    assert await alter(small) == (0, "")
