"""What an instance has, made by its own clients, and all that these can learn of it afterwards."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from itertools import count
from typing import Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import add_partitions_to_txn as add_partitions
from highwater.kafka.messages import alter_client_quotas as quotas
from highwater.kafka.messages import alter_user_scram_credentials as scram
from highwater.kafka.messages import consumer_group_heartbeat as consumer_heartbeat
from highwater.kafka.messages import create_acls as acls
from highwater.kafka.messages import create_topics as topics
from highwater.kafka.messages import describe_producers as producers
from highwater.kafka.messages import describe_user_scram_credentials as described_scram
from highwater.kafka.messages import incremental_alter_configs as configs
from highwater.kafka.messages import init_producer_id, produce, sync_group
from highwater.kafka.messages import join_group as join
from highwater.kafka.messages import list_offsets as offsets
from highwater.kafka.messages import offset_commit as commit
from highwater.kafka.messages import offset_fetch as committed
from highwater.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from highwater.kafka.messages.describe_groups import DescribeGroupsRequest
from highwater.kafka.messages.describe_transactions import DescribeTransactionsRequest
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.model.ids import InstanceId
from tests.cluster.border import by_hand
from tests.cluster.border.answers import Known
from tests.cluster.border.names import Names
from tests.cluster.instances import InstanceCluster, until
from tests.support.log_batches import make_batch
from tests.support.wire import RawConnection, only

LONG_MS = 600_000
"""How long members and transactions last that say nothing."""
ALTER_CONFIG_SET, ALTER_CONFIG_DELETE = 0, 1
GROUPS, TRANSACTIONS = 0, 1
"""Types of keys in FindCoordinator."""
READ = 3
_LATEST, _EARLIEST = -1, -2
_NUMBERS = count(1)
"""Counted over all clusters of this process, so that no cache in it knows a new owner's names."""
SUBSCRIPTIONS_KEPT = 200
"""With more of them room is made before the next test, which needs a hundred or two."""
_RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    # A coordinator may hear of a new topic later than the gateway does.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """One of everything that an instance has, twice: groups of both protocols share the rest."""

    classic: Names
    consumer: Names


class Owner:
    """The clients of one instance."""

    def __init__(self, tenants: InstanceCluster, instance: str) -> None:
        self.instance = InstanceId(instance)
        self._tenants = tenants
        self.all: list[Owned] = []
        self.known = Known()
        for kind in (GROUPS, TRANSACTIONS):
            # Which makes the coordinators' topic, if there is none yet.
            self._ask(
                FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"]),
                4,
                lambda answer: only(answer.coordinators).error_code,
            )

    def allow_everything(self) -> None:
        """To clients that have not logged in, as these: ACLs are about others, and requests remove some."""
        allowed = [
            acls.CreateAclsRequestAclCreation(
                kind, name, by_hand.LITERAL, "User:ANONYMOUS", "*", by_hand.ALL, by_hand.ALLOW
            )
            for kind, name in (
                (by_hand.TOPIC, "*"),
                (by_hand.ACL_GROUP, "*"),
                (by_hand.ACL_CLUSTER, "kafka-cluster"),
                (by_hand.ACL_TRANSACTIONAL_ID, "*"),
            )
        ]
        self._ask(
            acls.CreateAclsRequest(allowed),
            3,
            lambda answer: max(one.error_code for one in answer.results),
        )

    def make_room(self) -> None:
        """Removes client metrics subscriptions of earlier tests: an instance has a limited number."""
        there = {
            name: settings
            for (instance, name), settings in self._tenants.image.client_metrics.items()
            if instance == self.instance
        }
        if len(there) < SUBSCRIPTIONS_KEPT:
            return
        self._alter(
            [
                configs.IncrementalAlterConfigsRequestAlterConfigsResource(
                    by_hand.CLIENT_METRICS,
                    name,
                    [
                        configs.IncrementalAlterConfigsRequestAlterableConfig(
                            key, ALTER_CONFIG_DELETE, None
                        )
                        for key in settings
                    ],
                )
                for name, settings in there.items()
            ]
        )

    def make(self) -> Owned:
        """A new set, whose names say whose they are: a topic with records of a transaction that is open,
        groups with members and offsets, a user, quotas, ACLs, and configs.
        """
        mark = f"of-{self.instance}-{next(_NUMBERS):05d}"
        topic, transactional_id = f"{mark}-topic", f"{mark}-transaction"
        topic_id = self._make_topic(topic)
        producer_id, epoch = self._begin(transactional_id, topic)
        names = Names(
            topic=topic,
            topic_id=topic_id,
            group=f"{mark}-classic",
            member="",
            static_member=f"{mark}-static",
            generation=1,
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            user=f"{mark}-user",
            client_id=f"{mark}-client",
            subscription=f"{mark}-subscription",
        )
        consumer = names.with_texts(
            {"group": f"{mark}-consumer", "member": f"{mark}-member", "static_member": f"{mark}-c"}
        )
        # First, as groups' configs count for members that come later.
        self._make_settings(names, consumer)
        classic = names.with_texts({"member": self._join(names)})
        self._join_consumers(consumer)
        self._commit(classic, 7)
        self._commit(consumer, 9)
        self.all.append(Owned(classic=classic, consumer=consumer))
        return self.all[-1]

    def state(self, owned: Owned) -> dict[str, Any]:
        """What the cluster keeps of the instance, and what its clients are told of this set."""
        image = self._tenants.image
        mine = self.instance
        names = owned.classic
        found = {
            "topics": self._tenants.topics_of(mine),
            "quotas": {
                key: one for key, one in image.client_quotas.items() if key.instance == mine
            },
            "acls": {acl for acl in image.acls if acl.instance == mine},
            "groups": {key: one for key, one in image.group_configs.items() if key[0] == mine},
            "metrics": {key: one for key, one in image.client_metrics.items() if key[0] == mine},
            "instance": image.instances.get(mine),
            "brokers": (image.cluster_configs, image.node_configs),
        }
        place = producers.DescribeProducersRequestTopicRequest(names.topic, [0])
        user = described_scram.DescribeUserScramCredentialsRequestUserName(names.user)
        groups = [
            committed.OffsetFetchRequestOffsetFetchRequestGroup(group, topics=None)
            for group in (names.group, owned.consumer.group)
        ]
        for request, version in (
            (DescribeGroupsRequest([names.group]), 5),
            (ConsumerGroupDescribeRequest([owned.consumer.group]), 0),
            (committed.OffsetFetchRequest(groups=groups), 8),
            (DescribeTransactionsRequest([names.transactional_id]), 0),
            (producers.DescribeProducersRequest([place]), 0),
            (described_scram.DescribeUserScramCredentialsRequest([user]), 0),
            *((_offset_of(names.topic, timestamp), 7) for timestamp in (_LATEST, _EARLIEST)),
        ):
            answer = self._send(request, version)
            answer.throttle_time_ms = 0
            found[repr(request)] = repr(answer)
        return found

    def _send(self, request: Any, version: int) -> Any:
        """On a connection of its own: a test that is cut off leaves no answer for the next one."""
        with RawConnection.to(self._tenants.bootstrap(self.instance)) as client:
            return client.ask(request, version)

    def _ask(self, request: Any, version: int, code_of: Any) -> Any:
        """The answer, once its code is not one of those that clients try again after."""
        answers: list[Any] = []

        def answered() -> bool:
            answers.append(self._send(request, version))
            return code_of(answers[-1]) not in _RETRIED

        until(type(request).__name__, answered)
        assert code_of(answers[-1]) == 0, answers[-1]
        return answers[-1]

    def _make_topic(self, name: str) -> bytes:
        setting = topics.CreateTopicsRequestCreatableTopicConfig("retention.ms", "8888888")
        wish = topics.CreateTopicsRequestCreatableTopic(
            name=name, num_partitions=1, replication_factor=1, configs=[setting]
        )
        request = topics.CreateTopicsRequest(topics=[wish], timeout_ms=LONG_MS)
        made = self._ask(request, 7, lambda answer: only(answer.topics).error_code)
        return bytes(only(made.topics).topic_id)

    def _begin(self, transactional_id: str, topic: str) -> tuple[int, int]:
        """Leaves a transaction open; the producer's id and epoch."""
        request = init_producer_id.InitProducerIdRequest(transactional_id, LONG_MS)
        made = self._ask(request, 4, lambda answer: answer.error_code)
        added = add_partitions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch,
            v3_and_below_topics=[
                add_partitions.AddPartitionsToTxnRequestAddPartitionsToTxnTopic(topic, [0])
            ],
        )
        self._ask(
            added,
            3,
            lambda answer: (
                only(
                    only(answer.results_by_topic_v3_and_below).results_by_partition
                ).partition_error_code
            ),
        )
        batch = make_batch(
            timestamps=(int(time.time() * 1000),),
            value=f"record of {self.instance}".encode(),
            producer_id=made.producer_id,
            producer_epoch=made.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        data = produce.ProduceRequestPartitionProduceData(0, bytes(batch))
        into = produce.ProduceRequestTopicProduceData(name=topic, partition_data=[data])
        sent = produce.ProduceRequest(transactional_id, -1, LONG_MS, [into])
        self._ask(
            sent, 11, lambda answer: only(only(answer.responses).partition_responses).error_code
        )
        return made.producer_id, made.producer_epoch

    def _join(self, names: Names) -> str:
        """A static member, which leads its group; its id."""
        protocol = join.JoinGroupRequestJoinGroupRequestProtocol("range", b"")
        request = join.JoinGroupRequest(
            group_id=names.group,
            session_timeout_ms=LONG_MS,
            rebalance_timeout_ms=LONG_MS,
            group_instance_id=names.static_member,
            protocol_type="consumer",
            protocols=[protocol],
        )
        member: str = self._ask(request, 5, lambda answer: answer.error_code).member_id
        given = sync_group.SyncGroupRequestSyncGroupRequestAssignment(member, b"assigned")
        synced = sync_group.SyncGroupRequest(
            group_id=names.group,
            generation_id=1,
            member_id=member,
            group_instance_id=names.static_member,
            assignments=[given],
        )
        self._ask(synced, 3, lambda answer: answer.error_code)
        return member

    def _join_consumers(self, names: Names) -> None:
        request = consumer_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=names.group,
            member_id=names.member,
            member_epoch=0,
            instance_id=names.static_member,
            rebalance_timeout_ms=LONG_MS,
            subscribed_topic_names=[names.topic],
            topic_partitions=[],
        )
        self._ask(request, 1, lambda answer: answer.error_code)

    def _commit(self, names: Names, version: int) -> None:
        place = commit.OffsetCommitRequestOffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=f"{names.group} said"
        )
        request = commit.OffsetCommitRequest(
            group_id=names.group,
            generation_id_or_member_epoch=names.generation,
            member_id=names.member,
            group_instance_id=names.static_member,
            topics=[
                commit.OffsetCommitRequestOffsetCommitRequestTopic(names.topic, partitions=[place])
            ],
        )
        self._ask(request, version, lambda answer: only(only(answer.topics).partitions).error_code)

    def _make_settings(self, names: Names, consumer: Names) -> None:
        """A user, quotas, ACLs, and configs of groups and client metrics."""
        user = scram.AlterUserScramCredentialsRequestScramCredentialUpsertion(
            names.user, by_hand.SCRAM_SHA_256, 4096, uuid.uuid4().bytes, b"p" * 32
        )
        upserted = scram.AlterUserScramCredentialsRequest(upsertions=[user])
        self._ask(upserted, 0, lambda answer: only(answer.results).error_code)
        entity = [
            quotas.AlterClientQuotasRequestEntityData("user", names.user),
            quotas.AlterClientQuotasRequestEntityData("client-id", names.client_id),
        ]
        rate = quotas.AlterClientQuotasRequestOpData("producer_byte_rate", 8e8, False)
        entry = quotas.AlterClientQuotasRequestEntryData(entity, [rate])
        limited = quotas.AlterClientQuotasRequest([entry])
        self._ask(limited, 1, lambda answer: only(answer.entries).error_code)
        allowed = [
            acls.CreateAclsRequestAclCreation(
                kind, name, by_hand.LITERAL, f"User:{names.user}", "*", READ, by_hand.ALLOW
            )
            for kind, name in ((by_hand.TOPIC, names.topic), (by_hand.ACL_GROUP, names.group))
        ]
        self._ask(
            acls.CreateAclsRequest(allowed),
            3,
            lambda answer: max(one.error_code for one in answer.results),
        )
        changes = [
            configs.IncrementalAlterConfigsRequestAlterConfigsResource(
                kind,
                name,
                [
                    configs.IncrementalAlterConfigsRequestAlterableConfig(
                        key, ALTER_CONFIG_SET, value
                    )
                ],
            )
            for kind, name, key, value in (
                (by_hand.GROUP, names.group, "consumer.session.timeout.ms", "55000"),
                (by_hand.GROUP, consumer.group, "consumer.session.timeout.ms", str(LONG_MS)),
                (by_hand.CLIENT_METRICS, names.subscription, "interval.ms", "8000"),
            )
        ]
        self._alter(changes)

    def _alter(
        self, changes: list[configs.IncrementalAlterConfigsRequestAlterConfigsResource]
    ) -> None:
        self._ask(
            configs.IncrementalAlterConfigsRequest(changes),
            1,
            lambda answer: max(one.error_code for one in answer.responses),
        )


def _offset_of(topic: str, timestamp: int) -> offsets.ListOffsetsRequest:
    place = offsets.ListOffsetsRequestListOffsetsPartition(timestamp=timestamp)
    return offsets.ListOffsetsRequest(
        replica_id=-1, topics=[offsets.ListOffsetsRequestListOffsetsTopic(topic, [place])]
    )
