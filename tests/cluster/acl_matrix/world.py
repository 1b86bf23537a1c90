"""A cluster with an operator, who may do everything, and alice, who may do what a case says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_acls import CreateAclsRequest, CreateAclsRequestAclCreation
from highwater.kafka.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
)
from highwater.kafka.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
)
from highwater.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.kafka.messages.init_producer_id import InitProducerIdRequest
from highwater.kafka.messages.metadata import MetadataRequest
from highwater.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestOffsetCommitRequestPartition,
    OffsetCommitRequestOffsetCommitRequestTopic,
)
from tests.cluster.acl_matrix.cases import USER, Entry
from tests.cluster.acl_matrix.rows import Names
from tests.conformance.protocol.requests import topic_id
from tests.support.cluster import COMPLAINT_WORDS
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.process import free_port_block, wait_until
from tests.support.raw_login import log_in_by_plain, set_user
from tests.support.wire import RawConnection, only

_ANY = 1
_PASSWORD = "secret"
_PATIENCE_S = 30.0
_HEARD_S = 2.0
"""For an answer to be what it should be: alice's gateway may hear of a change after the operator's."""
_NO_TOPIC_ID = bytes(16)


class World:
    """Lives as long as a module's tests."""

    def __init__(self, directory: Path) -> None:
        port = free_port_block(1)
        self._cluster = EmbeddedCluster(
            directory,
            settings=(
                "gateway.authorizer=acl",
                'gateway.super_users=["User:ANONYMOUS"]',
                f"gateway.listeners.secure.port={port}",
                'gateway.listeners.secure.sasl_mechanisms=["PLAIN"]',
            ),
        )
        self._cluster.start()
        self.operator = RawConnection.to(self._cluster.bootstrap)
        set_user(self.operator, USER, _PASSWORD)
        self.alice = RawConnection("127.0.0.1", port)
        assert log_in_by_plain(self.alice, USER, _PASSWORD) == ErrorCode.NONE
        node = self._cluster.nodes[0].node_id
        self.spare = Names(
            topic="spare-topic",
            topic_id=_NO_TOPIC_ID,
            group="spare-group",
            transactional_id="spare-id",
            node=node,
        )
        self._make("matrix-topic")
        self.there = Names(
            topic="matrix-topic",
            topic_id=topic_id(self.operator, "matrix-topic"),
            group="matrix-group",
            transactional_id="matrix-id",
            node=node,
        )
        self._begin_group()
        self._begin_transactions()

    def close(self) -> None:
        """Ends the cluster."""
        self.operator.__exit__()
        self.alice.__exit__()
        self._cluster.stop()

    @property
    def complaints(self) -> list[str]:
        """What the cluster's log says of errors, but for waiting for a processor that others have."""
        process = self._cluster.process
        return process.lines_with(*COMPLAINT_WORDS, without=("event_loop_stalled",))

    # ---- what cases need ----

    def allow(self, entries: Sequence[Entry]) -> None:
        """Makes these the only entries."""
        everything = DeleteAclsRequestDeleteAclsFilter(_ANY, None, _ANY, None, None, _ANY, _ANY)
        answer = self.operator.ask(DeleteAclsRequest([everything]), 3)
        assert only(answer.filter_results).error_code == ErrorCode.NONE
        if not entries:
            return
        wanted = [
            CreateAclsRequestAclCreation(
                each.kind,
                each.name,
                each.pattern,
                f"User:{each.user}",
                each.host,
                each.operation,
                each.permission,
            )
            for each in entries
        ]
        for result in self.operator.ask(CreateAclsRequest(wanted), 3).results:
            assert result.error_code == ErrorCode.NONE, result

    # ---- `Row.prepare` ----

    def make_topic(self) -> None:
        """The spare topic is there."""
        if not self._is_there(self.spare.topic):
            self._make(self.spare.topic)

    def remove_topic(self) -> None:
        """The spare topic is not there."""
        if self._is_there(self.spare.topic):
            wanted = [DeleteTopicsRequestDeleteTopicState(self.spare.topic)]
            answer = self.operator.ask(DeleteTopicsRequest(wanted, timeout_ms=10_000), 6)
            assert only(answer.responses).error_code == ErrorCode.NONE

    def commit(self) -> None:
        """The group has an offset."""
        part = OffsetCommitRequestOffsetCommitRequestPartition(0, 0)
        topic = OffsetCommitRequestOffsetCommitRequestTopic(self.there.topic, _NO_TOPIC_ID, [part])
        request = OffsetCommitRequest(self.there.group, topics=[topic])
        answer = self.operator.ask(request, 8)
        assert only(only(answer.topics).partitions).error_code == ErrorCode.NONE

    # ---- the beginning ----

    def _is_there(self, name: str) -> bool:
        answer = self.operator.ask(MetadataRequest(None), 12)
        return name in {topic.name for topic in answer.topics}

    def _make(self, name: str) -> None:
        topic = CreateTopicsRequestCreatableTopic(name, 1, 1)
        answer = self.operator.ask(CreateTopicsRequest([topic], 10_000), 7)
        assert only(answer.topics).error_code == ErrorCode.NONE, only(answer.topics)

    def _begin_group(self) -> None:
        self._await_coordinator(self.there.group, 0)

        def committed() -> bool:
            try:
                self.commit()
            except AssertionError:  # The coordinator is being loaded.
                return False
            return True

        wait_until(committed, timeout_s=_PATIENCE_S, what="a first commit")

    def _begin_transactions(self) -> None:
        self._await_coordinator(self.there.transactional_id, 1)
        request = InitProducerIdRequest(self.there.transactional_id, 10_000)
        wait_until(
            lambda: self.operator.ask(request, 4).error_code == ErrorCode.NONE,
            timeout_s=_PATIENCE_S,
            what="a transactional producer",
        )

    def _await_coordinator(self, key: str, kind: int) -> None:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

        def found() -> bool:
            answer = self.operator.ask(request, 4)
            return bool(only(answer.coordinators).error_code == ErrorCode.NONE)

        wait_until(found, timeout_s=_PATIENCE_S, what=f"the coordinator of {key}")


def heard_by() -> float:
    """When an answer has to be what it should be, on the monotonic clock."""
    return time.monotonic() + _HEARD_S
