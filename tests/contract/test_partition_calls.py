"""Unary calls of a stock client to the node of `test_partition_service`, and whether all calls are made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_groups import ListGroupsRequest, decode_response, encode_request
from highwater.kafka.records.batch import read_header
from tests.contract import test_partition_service
from tests.contract.test_partition_service import (
    HEARTBEAT,
    LIST_GROUPS,
    LIST_GROUPS_VERSION,
    WAIT_S,
    append,
    scene,
)
from tests.support.log_batches import make_batch
from tests.support.rpc_demo import run_on_uvloop

PRODUCER, PRODUCER_EPOCH = 77, 3


@pytest.fixture
async def node(tmp_path):
    async with scene(tmp_path) as made:
        yield made


@pytest.fixture
def stub(node):
    return node["stub"]


@pytest.fixture
def orders(node):
    return node["orders"]


@pytest.fixture
def directory(node):
    return node["directory"]


async def test_unary_calls(stub, orders, directory):
    batches = [make_batch(timestamps=(1_000 * n,), value=b"x" * 100) for n in (1, 2, 3)]
    await append(stub, orders, *batches)
    where = {"topic_id": orders.topic_id, "partition": orders.partition}
    known = {**where, "current_leader_epoch": -1}
    offsets = await stub.ListOffsets(
        pb.ListOffsetsRequest(
            instance="default",
            partitions=[{**known, "timestamp": at} for at in (-1, -2, 2_000)]
            + [{**known, "partition": 77, "timestamp": -1}],
        ),
        timeout=WAIT_S,
    )
    assert [(r.error_code, r.offset, r.timestamp) for r in offsets.results[:3]] == [
        (0, 3, -1),
        (0, 0, -1),
        (0, 1, 2_000),
    ]
    assert offsets.results[3].error_code
    ends = await stub.OffsetsForLeaderEpoch(
        pb.OffsetsForLeaderEpochRequest(
            instance="default", partitions=[{**known, "leader_epoch": orders.epoch}]
        ),
        timeout=WAIT_S,
    )
    assert [(r.error_code, r.leader_epoch, r.end_offset) for r in ends.results] == [
        (0, orders.epoch, 3)
    ]
    deleted = await stub.DeleteRecords(
        pb.DeleteRecordsRequest(instance="default", partitions=[{**where, "offset": 99}]),
        timeout=WAIT_S,
    )
    assert deleted.results[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    told = await stub.DescribeLogDirs(
        pb.DescribeLogDirsRequest(instance="default", all_topics=True), timeout=WAIT_S
    )
    (described,) = told.dirs
    assert (described.error_code, described.path) == (0, str(directory))
    sizes = {(r.topic_id, r.partition): r.size_bytes for r in described.replicas}
    assert sizes[orders.topic_id, orders.partition] == sum(map(len, batches))
    here = {"topic_id": orders.topic_id, "partition": orders.partition}
    wishes = pb.AlterLogDirsRequest(
        changes=[{**here, "path": 0}, {**here, "path": 1}], paths=[str(directory), "/elsewhere"]
    )
    altered = await stub.AlterLogDirs(wishes, timeout=WAIT_S)
    assert list(altered.error_codes) == [ErrorCode.NONE, ErrorCode.LOG_DIR_NOT_FOUND]
    loggers = await stub.DescribeLoggers(pb.DescribeLoggersRequest(), timeout=WAIT_S)
    assert dict(loggers.levels) == {"root": "INFO"}
    refused = await stub.AlterLoggers(
        pb.AlterLoggersRequest(changes=[{"logger": "root"}]), timeout=WAIT_S
    )
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    found = await stub.ReadRange(
        pb.ReadRangeRequest(
            **where, leader_epoch=orders.epoch, offset=1, end_offset=3, max_bytes=1 << 20
        ),
        timeout=WAIT_S,
    )
    assert found.error_code == 0
    assert len(found.records) == len(batches[1]) + len(batches[2])
    assert read_header(found.records).base_offset == 1


async def test_calls_about_producers(stub, orders):
    batch = make_batch(producer_id=PRODUCER, producer_epoch=PRODUCER_EPOCH, base_sequence=0)
    assert list((await append(stub, orders, batch)).base_offsets) == [0]
    where = {"topic_id": orders.topic_id, "partition": orders.partition}
    question = pb.DescribeProducersRequest(
        instance="default", partitions=[where, {**where, "partition": 99}]
    )
    here, nowhere = (await stub.DescribeProducers(question, timeout=WAIT_S)).results
    (told,) = here.producers
    assert (told.producer_id, told.producer_epoch, told.last_sequence) == (PRODUCER, 3, 0)
    assert (told.coordinator_epoch, told.current_txn_start_offset) == (-1, -1)
    assert (here.error_code, nowhere.error_code) == (0, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def marker(epoch):
        partitions = [{**where, "leader_epoch": orders.epoch}]
        fields = {"producer_id": PRODUCER, "producer_epoch": epoch, "coordinator_epoch": 5}
        return pb.TxnMarker(committed=True, partitions=partitions, **fields)

    markers = [marker(PRODUCER_EPOCH), marker(PRODUCER_EPOCH - 1)]
    written = await stub.WriteTxnMarkers(pb.WriteTxnMarkersRequest(markers=markers), timeout=WAIT_S)
    assert list(written.error_codes) == [0, ErrorCode.INVALID_PRODUCER_EPOCH]
    (told,) = (await stub.DescribeProducers(question, timeout=WAIT_S)).results[0].producers
    assert told.coordinator_epoch == 5


async def test_one_call_of_a_coordinator(stub):
    every = {"instance": "default", "client_id": "c", "client_host": "/h", "deadline_ms": 5_000}
    list_groups = pb.CoordinatorCall(
        call_id=7,
        api_key=LIST_GROUPS,
        api_version=LIST_GROUPS_VERSION,
        coordinator_partition=-1,
        body=encode_request(ListGroupsRequest(), LIST_GROUPS_VERSION),
        **every,
    )
    reply = await stub.CoordinateOne(list_groups, timeout=WAIT_S)
    assert (reply.call_id, reply.error_code) == (7, 0)
    listed = decode_response(reply.body, 0, LIST_GROUPS_VERSION)
    assert (listed.error_code, list(listed.groups)) == (0, [])
    elsewhere = pb.CoordinatorCall(
        call_id=8, api_key=HEARTBEAT, api_version=4, coordinator_partition=3, **every
    )
    reply = await stub.CoordinateOne(elsewhere, timeout=WAIT_S)
    assert (reply.call_id, reply.error_code) == (8, ErrorCode.NOT_COORDINATOR)


def test_every_method_of_the_proto_is_called_here():
    methods = {method.name for method in pb.DESCRIPTOR.services_by_name["PartitionService"].methods}
    tests = [Path(__file__), Path(str(test_partition_service.__file__))]
    called = {name for test in tests for name in re.findall(r"stub\.(\w+)\(", test.read_text())}
    assert methods == called & methods, "a stock client calls these nowhere"


@pytest.mark.parametrize(
    "check", [test_unary_calls, test_calls_about_producers, test_one_call_of_a_coordinator]
)
def test_on_uvloop(check, tmp_path):
    run_on_uvloop(check, lambda: scene(tmp_path))
