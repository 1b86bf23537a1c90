"""Rows of requests about groups and transactions."""

from __future__ import annotations

from typing import Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import (
    add_offsets_to_txn,
    delete_groups,
    describe_groups,
    describe_transactions,
    end_txn,
    find_coordinator,
    heartbeat,
    init_producer_id,
    leave_group,
    list_groups,
    list_transactions,
    sync_group,
)
from highwater.kafka.messages import add_partitions_to_txn as adding
from highwater.kafka.messages import consumer_group_describe as described
from highwater.kafka.messages import consumer_group_heartbeat as beating
from highwater.kafka.messages import offset_commit as committing
from highwater.kafka.messages import offset_delete as forgetting
from highwater.kafka.messages import offset_fetch as asking
from highwater.kafka.messages import txn_offset_commit as txn_committing
from highwater.kafka.messages import write_txn_markers as markers
from tests.cluster.acl_matrix.rows import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    HIDDEN,
    REACHED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    C,
    G,
    Names,
    Need,
    Op,
    Row,
    T,
    X,
    first,
    listed,
    top,
)
from tests.conformance.protocol.groups import join_request
from tests.support.wire import only

_MEMBER = "nobody"
_READ_GROUP = (Need(Op.READ, G),)
_NO_MEMBER = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND))
_NO_PRODUCER = frozenset((ErrorCode.INVALID_PRODUCER_ID_MAPPING,))


def _commit(names: Names) -> Any:
    part = committing.OffsetCommitRequestOffsetCommitRequestPartition(0, 0)
    topic = committing.OffsetCommitRequestOffsetCommitRequestTopic(names.topic, bytes(16), [part])
    return committing.OffsetCommitRequest(names.group, topics=[topic])


def _commit_by_id(names: Names) -> Any:
    part = committing.OffsetCommitRequestOffsetCommitRequestPartition(0, 0)
    topic = committing.OffsetCommitRequestOffsetCommitRequestTopic("", names.topic_id, [part])
    return committing.OffsetCommitRequest(names.group, topics=[topic])


def _committed(names: Names, *, by_id: bool = False) -> Any:
    topic = asking.OffsetFetchRequestOffsetFetchRequestTopics(
        "" if by_id else names.topic, names.topic_id if by_id else bytes(16), [0]
    )
    group = asking.OffsetFetchRequestOffsetFetchRequestGroup(names.group, topics=[topic])
    return asking.OffsetFetchRequest(groups=[group])


def _all_committed(answer: Any, names: Names) -> int:
    group = only(answer.groups)
    assert group.error_code == ErrorCode.NONE
    return ErrorCode.NONE if names.topic in {one.name for one in group.topics} else HIDDEN


def _coordinator(key: str, key_type: int) -> Any:
    return find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])


def _add_partitions(names: Names) -> Any:
    topics = [adding.AddPartitionsToTxnRequestAddPartitionsToTxnTopic(names.topic, [0])]
    return adding.AddPartitionsToTxnRequest((), names.transactional_id, 7_000_000, 0, topics)


def _added(answer: Any, _names: Names) -> int:
    (topic,) = answer.results_by_topic_v3_and_below
    code: int = only(topic.results_by_partition).partition_error_code
    return code


def _add_in_batch(names: Names) -> Any:
    topics = [adding.AddPartitionsToTxnRequestAddPartitionsToTxnTopic(names.topic, [0])]
    one = adding.AddPartitionsToTxnRequestAddPartitionsToTxnTransaction(
        names.transactional_id, 7_000_000, 0, verify_only=True, topics=topics
    )
    return adding.AddPartitionsToTxnRequest([one])


def _commit_in_txn(names: Names) -> Any:
    part = txn_committing.TxnOffsetCommitRequestTxnOffsetCommitRequestPartition(0, 0)
    topic = txn_committing.TxnOffsetCommitRequestTxnOffsetCommitRequestTopic(names.topic, [part])
    return txn_committing.TxnOffsetCommitRequest(
        # A member that is not there: nothing is stored.
        names.transactional_id, names.group, 7_000_000, 0, 3, _MEMBER, topics=[topic]
    )  # fmt: skip


def _forget(names: Names) -> Any:
    part = forgetting.OffsetDeleteRequestOffsetDeleteRequestPartition(0)
    topic = forgetting.OffsetDeleteRequestOffsetDeleteRequestTopic(names.topic, [part])
    return forgetting.OffsetDeleteRequest(names.group, [topic])


def _markers(names: Names) -> Any:
    topic = markers.WriteTxnMarkersRequestWritableTxnMarkerTopic(names.topic, [0])
    marker = markers.WriteTxnMarkersRequestWritableTxnMarker(7_000_000, 0, False, [topic])
    return markers.WriteTxnMarkersRequest([marker])


def _beat(names: Names) -> Any:
    return beating.ConsumerGroupHeartbeatRequest(
        names.group, _MEMBER, 5, subscribed_topic_names=[names.topic]
    )


GROUP_ROWS = (
    Row(
        name="",
        request=_commit,
        version=8,
        code=first("topics", "partitions"),
        needs=_READ_GROUP,
        given=(Need(Op.READ, T),),
        denied=GROUP_DENIED,
    ),
    Row(
        name="topic",
        request=_commit,
        version=8,
        code=first("topics", "partitions"),
        needs=(Need(Op.READ, T),),
        given=_READ_GROUP,
        denied=TOPIC_DENIED,
    ),
    Row(
        name="topic-by-id",
        request=_commit_by_id,
        version=10,
        code=first("topics", "partitions"),
        needs=(Need(Op.READ, T),),
        given=_READ_GROUP,
        denied=TOPIC_DENIED,
    ),
    Row(
        name="",
        request=_committed,
        version=9,
        code=first("groups"),
        needs=(Need(Op.DESCRIBE, G),),
        given=(Need(Op.DESCRIBE, T),),
        denied=GROUP_DENIED,
    ),
    Row(
        name="topic",
        request=_committed,
        version=9,
        code=first("groups", "topics", "partitions"),
        needs=(Need(Op.DESCRIBE, T),),
        given=(Need(Op.DESCRIBE, G),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="topic-by-id",
        request=lambda names: _committed(names, by_id=True),
        version=10,
        code=first("groups", "topics", "partitions"),
        needs=(Need(Op.DESCRIBE, T),),
        given=(Need(Op.DESCRIBE, G),),
        denied=TOPIC_DENIED,
    ),
    Row(
        name="all-topics",
        request=lambda names: asking.OffsetFetchRequest(
            groups=[asking.OffsetFetchRequestOffsetFetchRequestGroup(names.group, topics=None)]
        ),
        version=9,
        code=_all_committed,
        needs=(Need(Op.DESCRIBE, T),),
        given=(Need(Op.DESCRIBE, G),),
        denied=HIDDEN,
    ),
    Row(
        name="group",
        request=lambda names: _coordinator(names.group, 0),
        version=4,
        code=first("coordinators"),
        needs=(Need(Op.DESCRIBE, G),),
        denied=GROUP_DENIED,
    ),
    Row(
        name="transaction",
        request=lambda names: _coordinator(names.transactional_id, 1),
        version=4,
        code=first("coordinators"),
        needs=(Need(Op.DESCRIBE, X),),
        denied=TRANSACTION_DENIED,
    ),
    Row(
        name="",
        request=lambda names: join_request(names.group),
        version=6,
        code=top,
        needs=_READ_GROUP,
        denied=GROUP_DENIED,
        allowed=frozenset((ErrorCode.MEMBER_ID_REQUIRED,)),
        spare=True,
    ),
    Row(
        name="",
        request=lambda names: heartbeat.HeartbeatRequest(names.group, 1, _MEMBER),
        version=4,
        code=top,
        needs=_READ_GROUP,
        denied=GROUP_DENIED,
        allowed=_NO_MEMBER,
        spare=True,
    ),
    Row(
        name="",
        request=lambda names: leave_group.LeaveGroupRequest(
            names.group, members=[leave_group.LeaveGroupRequestMemberIdentity(_MEMBER)]
        ),
        version=4,
        code=first("members"),
        needs=_READ_GROUP,
        denied=GROUP_DENIED,
        allowed=_NO_MEMBER,
        spare=True,
    ),
    Row(
        name="",
        request=lambda names: sync_group.SyncGroupRequest(
            names.group, 1, _MEMBER, protocol_type="consumer", protocol_name="range"
        ),
        version=5,
        code=top,
        needs=_READ_GROUP,
        denied=GROUP_DENIED,
        allowed=_NO_MEMBER,
        spare=True,
    ),
    Row(
        name="",
        request=lambda names: describe_groups.DescribeGroupsRequest([names.group]),
        version=5,
        code=first("groups"),
        needs=(Need(Op.DESCRIBE, G),),
        denied=GROUP_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: list_groups.ListGroupsRequest(),
        version=5,
        code=listed("groups", "group_id", G),
        needs=(Need(Op.DESCRIBE, G), Need(Op.DESCRIBE, C)),
        denied=HIDDEN,
    ),
    Row(
        name="",
        request=lambda names: delete_groups.DeleteGroupsRequest([names.group]),
        version=2,
        code=first("results"),
        needs=(Need(Op.DELETE, G),),
        denied=GROUP_DENIED,
        allowed=frozenset((ErrorCode.GROUP_ID_NOT_FOUND,)),
        spare=True,
    ),
    Row(
        name="",
        request=_forget,
        version=0,
        code=first("topics", "partitions"),
        needs=(Need(Op.DELETE, G),),
        given=(Need(Op.READ, T),),
        denied=GROUP_DENIED,
        prepare="commit",
    ),
    Row(
        name="topic",
        request=_forget,
        version=0,
        code=first("topics", "partitions"),
        needs=(Need(Op.READ, T),),
        given=(Need(Op.DELETE, G),),
        denied=TOPIC_DENIED,
        prepare="commit",
    ),
    Row(
        name="",
        request=_beat,
        version=1,
        code=top,
        needs=_READ_GROUP,
        given=(Need(Op.DESCRIBE, T),),
        denied=GROUP_DENIED,
        allowed=_NO_MEMBER,
        spare=True,
    ),
    Row(
        name="topic",
        request=_beat,
        version=1,
        code=top,
        needs=(Need(Op.DESCRIBE, T),),
        given=_READ_GROUP,
        denied=TOPIC_DENIED,
        allowed=_NO_MEMBER,
        spare=True,
    ),
    Row(
        name="",
        request=lambda names: described.ConsumerGroupDescribeRequest([names.group]),
        version=1,
        code=first("groups"),
        needs=(Need(Op.DESCRIBE, G),),
        denied=GROUP_DENIED,
        allowed=frozenset((ErrorCode.GROUP_ID_NOT_FOUND,)),
        spare=True,
    ),
    Row(
        name="transaction",
        request=lambda names: init_producer_id.InitProducerIdRequest(
            names.transactional_id, 10_000
        ),
        version=4,
        code=top,
        needs=(Need(Op.WRITE, X),),
        denied=TRANSACTION_DENIED,
        spare=True,
    ),
    Row(
        name="",
        request=lambda _names: init_producer_id.InitProducerIdRequest(None),
        version=4,
        code=top,
        needs=(Need(Op.IDEMPOTENT_WRITE, C), Need(Op.WRITE, T, any_name=True)),
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=_add_partitions,
        version=3,
        code=_added,
        needs=(Need(Op.WRITE, X),),
        given=(Need(Op.WRITE, T),),
        denied=TRANSACTION_DENIED,
        allowed=_NO_PRODUCER,
    ),
    Row(
        name="topic",
        request=_add_partitions,
        version=3,
        code=_added,
        needs=(Need(Op.WRITE, T),),
        given=(Need(Op.WRITE, X),),
        denied=TOPIC_DENIED,
        allowed=_NO_PRODUCER,
    ),
    Row(
        name="batch",
        request=_add_in_batch,
        version=5,
        code=top,
        needs=(Need(Op.CLUSTER_ACTION, C),),
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda names: add_offsets_to_txn.AddOffsetsToTxnRequest(
            names.transactional_id, 7_000_000, 0, names.group
        ),
        version=3,
        code=top,
        needs=(Need(Op.WRITE, X),),
        given=_READ_GROUP,
        denied=TRANSACTION_DENIED,
        allowed=_NO_PRODUCER,
    ),
    Row(
        name="group",
        request=lambda names: add_offsets_to_txn.AddOffsetsToTxnRequest(
            names.transactional_id, 7_000_000, 0, names.group
        ),
        version=3,
        code=top,
        needs=_READ_GROUP,
        given=(Need(Op.WRITE, X),),
        denied=GROUP_DENIED,
        allowed=_NO_PRODUCER,
    ),
    Row(
        name="",
        request=lambda names: end_txn.EndTxnRequest(names.transactional_id, 7_000_000, 0),
        version=3,
        code=top,
        needs=(Need(Op.WRITE, X),),
        denied=TRANSACTION_DENIED,
        allowed=_NO_PRODUCER,
    ),
    Row(
        name="",
        request=_commit_in_txn,
        version=3,
        code=first("topics", "partitions"),
        needs=(Need(Op.WRITE, X),),
        given=(*_READ_GROUP, Need(Op.READ, T)),
        denied=TRANSACTION_DENIED,
        allowed=REACHED,
    ),
    Row(
        name="group",
        request=_commit_in_txn,
        version=3,
        code=first("topics", "partitions"),
        needs=_READ_GROUP,
        given=(Need(Op.WRITE, X), Need(Op.READ, T)),
        denied=GROUP_DENIED,
        allowed=REACHED,
    ),
    Row(
        name="topic",
        request=_commit_in_txn,
        version=3,
        code=first("topics", "partitions"),
        needs=(Need(Op.READ, T),),
        given=(Need(Op.WRITE, X), *_READ_GROUP),
        denied=TOPIC_DENIED,
        allowed=REACHED,
    ),
    Row(
        name="",
        request=_markers,
        version=1,
        code=first("markers", "topics", "partitions"),
        needs=(Need(Op.CLUSTER_ACTION, C), Need(Op.ALTER, C)),
        denied=CLUSTER_DENIED,
        allowed=frozenset((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)),
        spare=True,
        prepare="remove_topic",
    ),
    Row(
        name="",
        request=lambda names: describe_transactions.DescribeTransactionsRequest(
            [names.transactional_id]
        ),
        version=0,
        code=first("transaction_states"),
        needs=(Need(Op.DESCRIBE, X),),
        denied=TRANSACTION_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: list_transactions.ListTransactionsRequest(),
        version=1,
        code=listed("transaction_states", "transactional_id", X),
        needs=(Need(Op.DESCRIBE, X),),
        denied=HIDDEN,
    ),
)
