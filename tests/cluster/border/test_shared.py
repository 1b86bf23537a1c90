"""What instances share is the default instance's to alter; what clients find by patterns is their own."""

from __future__ import annotations

import uuid

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import alter_configs as old
from highwater.kafka.messages import incremental_alter_configs as configs
from highwater.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.cluster.border.by_hand import BROKER, LOGGER
from tests.cluster.border.owner import ALTER_CONFIG_SET, Owner
from tests.cluster.instances import InstanceCluster, until
from tests.support.wire import RawConnection, only

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("kind", "setting"),
    [(BROKER, ("log.retention.ms", "7777777")), (LOGGER, ("root", "ERROR"))],
    ids=["broker", "logger"],
)
@pytest.mark.parametrize("of_all", [False, True])
def test_an_instance_alters_no_broker(
    tenants: InstanceCluster,
    owners: dict[str, Owner],
    kind: int,
    setting: tuple[str, str],
    of_all: bool,
) -> None:
    """Neither one nor all, though its ACLs allow its clients everything there is in it."""
    owners["red"].allow_everything()
    name = "" if of_all else str(tenants.node)
    key, value = setting
    change = configs.IncrementalAlterConfigsRequestAlterableConfig(key, ALTER_CONFIG_SET, value)
    changed = configs.IncrementalAlterConfigsRequestAlterConfigsResource(kind, name, [change])
    replaced = old.AlterConfigsRequestAlterConfigsResource(
        kind, name, [old.AlterConfigsRequestAlterableConfig(key, value)]
    )
    with RawConnection.to(tenants.bootstrap("red")) as client:
        for version in (0, 1):
            answer = client.ask(configs.IncrementalAlterConfigsRequest([changed]), version)
            assert only(answer.responses).error_code == REFUSED
        for version in (0, 1, 2):
            answer = client.ask(old.AlterConfigsRequest([replaced]), version)
            assert only(answer.responses).error_code == REFUSED
    owners["red"].make()  # Whatever was decided before it is in the image now.
    assert not tenants.image.cluster_configs
    assert not any(tenants.image.node_configs.values())


def test_a_regular_expression_finds_the_own_topics(
    tenants: InstanceCluster, owners: dict[str, Owner]
) -> None:
    """A member that subscribes to all topics there are is assigned those of its instance."""
    for owner in owners.values():
        owner.allow_everything()
        owner.make()
    group, member = f"of-red-{uuid.uuid4()}", str(uuid.uuid4())
    own = {topic.topic_id for topic in tenants.topics_of(owners["red"].instance)}
    with RawConnection.to(tenants.bootstrap("red")) as client:
        epoch, assigned = 0, set[bytes]()

        def given() -> bool:
            nonlocal epoch
            request = ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member,
                member_epoch=epoch,
                rebalance_timeout_ms=60_000,
                subscribed_topic_regex="of-.*" if not epoch else None,
                topic_partitions=[] if not epoch else None,
            )
            answer = client.ask(request, 1)
            assert not answer.error_code, answer
            epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned.update(bytes(one.topic_id) for one in answer.assignment.topic_partitions)
            return bool(assigned)

        until("an assignment", given)
    assert assigned <= own
