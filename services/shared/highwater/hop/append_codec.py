"""Encodes and decodes AppendRequest and AppendResponse, on both ends of the stream."""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import AppendGroup, AppendOwner, Failure, TransactionalWrite
from highwater.hop.append_expiry import NEVER_MS
from highwater.hop.framing import PLACEHOLDER, HopFramingError, Parts, frame, split
from highwater.model.ids import InstanceId, TopicId
from highwater.rpc.ports import Message

MESSAGE_BYTES_MAX: Final = 1 << 20
MESSAGE_BATCHES_MAX: Final = 256
ROWS_MAX: Final = 16 * MESSAGE_BATCHES_MAX
"""Groups, or batches, of a message that is read. One costs a few bytes there and up to a kilobyte here,
where a message may have 128 MiB; other versions of gateways may gather more than this one does."""
DEADLINE_MS_MAX: Final = (1 << 31) - 1
COPY_BYTES_MAX: Final = 256 * 1024
"""Up to this size, groups of a message that is read-only are copied once, patched in place and
written in one piece. Larger ones are patched by a prefix beside each batch, as copying them would cost
more."""


def split_messages(groups: list[AppendGroup]) -> list[list[AppendGroup]]:
    """Cuts groups into messages of at most 1 MiB and 256 batches, but at least one group."""
    messages: list[list[AppendGroup]] = []
    current: list[AppendGroup] = []
    nbytes = batches = 0
    for group in groups:
        n = len(group.batches)
        if current and (
            nbytes + group.nbytes > MESSAGE_BYTES_MAX or batches + n > MESSAGE_BATCHES_MAX
        ):
            messages.append(current)
            current = []
            nbytes = batches = 0
        current.append(group)
        nbytes += group.nbytes
        batches += n
    if current:
        messages.append(current)
    return messages


def encode_request(message_id: int, groups: list[AppendGroup], now_ms: int) -> Parts:
    """Encodes one message, which refers to the batches if they are long."""
    header = pb.AppendRequest(header_bytes=PLACEHOLDER, message_id=message_id)
    topics: dict[TopicId, int] = {}
    payload = []
    nbytes = 0
    deadline_ms = 0
    batch_bytes: list[int] = []
    transactional = False
    for group in groups:
        if group.transaction is not None:
            transactional = True
        topic = topics.get(group.topic_id)
        if topic is None:
            topic = topics[group.topic_id] = len(topics)
            header.topic_ids.append(group.topic_id)
            header.instances.append(group.instance)
        header.group_topic.append(topic)
        header.group_partition.append(group.partition)
        header.group_leader_epoch.append(group.leader_epoch)
        header.group_acks.append(group.acks)
        header.group_batches.append(len(group.batches))
        batch_bytes.extend(map(len, group.batches))
        payload.extend(group.batches)
        nbytes += group.nbytes
        last_ms = group.last_deadline_ms if group.later_deadlines else group.deadline_ms
        if deadline_ms < last_ms < NEVER_MS:
            deadline_ms = last_ms
    header.batch_bytes.extend(batch_bytes)
    if transactional:
        _add_transactions(header, groups)
    header.deadline_ms = min(max(0, deadline_ms - now_ms), DEADLINE_MS_MAX)
    return frame(header.SerializeToString(), payload, nbytes)


def _add_transactions(header: pb.AppendRequest, groups: list[AppendGroup]) -> None:
    ids: dict[str, int] = {}
    for group in groups:
        write = group.transaction
        if write is None:
            header.group_transaction.append(0)
            continue
        place = ids.setdefault(write.transactional_id, len(ids))
        header.group_transaction.append(1 + 2 * place + write.adds_partition)
    header.transactional_ids.extend(ids)


def decode_request(
    message: Message, now_ms: int = 0, owner: AppendOwner | None = None
) -> tuple[int, list[AppendGroup]]:
    """(message id, groups); batches are views of the message or of a writable copy of it.

    A bytearray is the groups' own from now on, and its batches may be changed in place. `now_ms` is on the receiver's monotonic clock, which the groups' deadlines use.
    """
    head, payload = split(message)
    try:
        header = pb.AppendRequest.FromString(head)  # type: ignore[arg-type]  # Any buffer will do.
        return header.message_id, _groups_of(header, payload, now_ms, owner)
    except (DecodeError, IndexError, ValueError) as error:
        raise HopFramingError(f"malformed AppendRequest: {error}") from None


def _groups_of(
    header: pb.AppendRequest, payload: memoryview, now_ms: int, owner: AppendOwner | None
) -> list[AppendGroup]:
    if len(header.group_batches) > ROWS_MAX or len(header.batch_bytes) > ROWS_MAX:
        raise HopFramingError(f"more than {ROWS_MAX} groups or batches in a message")
    message_id = header.message_id
    deadline_ms = now_ms + (header.deadline_ms or 1)  # 0 is none.
    topic_ids = [TopicId(t) for t in header.topic_ids]
    sizes = list(header.batch_bytes)
    counts = list(header.group_batches)
    if sum(sizes) != len(payload) or sum(counts) != len(sizes):
        raise HopFramingError(f"{len(sizes)} batches do not add up to {len(payload)} bytes")
    groups: list[AppendGroup] = []
    position = batch = 0
    for topic, partition, epoch, acks, count in zip(
        header.group_topic,
        header.group_partition,
        header.group_leader_epoch,
        header.group_acks,
        counts,
        strict=True,
    ):
        group = AppendGroup(
            topic_ids[topic], partition, epoch, acks, InstanceId(header.instances[topic]), owner
        )
        group.message_id = message_id
        group.place = len(groups)
        mine = sizes[batch : batch + count]
        nbytes = sum(mine)
        source = payload[position : position + nbytes]
        if not source.readonly:
            group.whole = source
        elif nbytes <= COPY_BYTES_MAX:
            group.whole = bytearray(source)
            source = memoryview(group.whole)
        else:
            group.writable = False
        at = 0
        batches = group.batches
        for size in mine:
            batches.append(source[at : at + size])
            at += size
        group.nbytes = nbytes
        group.deadline_ms = deadline_ms
        position += nbytes
        batch += count
        groups.append(group)
    if header.group_transaction:
        _set_transactions(header, groups)
    return groups


def _set_transactions(header: pb.AppendRequest, groups: list[AppendGroup]) -> None:
    ids = header.transactional_ids
    for group, code in zip(groups, header.group_transaction, strict=True):
        if code:
            place, adds = divmod(code - 1, 2)
            group.transaction = TransactionalWrite(ids[place], bool(adds))


def result_of(
    group: AppendGroup, base_offsets: list[int], failures: Mapping[int, Failure] | None
) -> pb.AppendGroupResult:
    """The wire form of the outcome of a group that was decoded here."""
    result = pb.AppendGroupResult(
        message_id=group.message_id,
        group=group.place,
        base_offsets=base_offsets,
        log_start_offset=group.log_start_offset,
        log_append_time_ms=group.log_append_time_ms,
        throttle_ms=group.throttle_ms,
    )
    if group.known_timestamps:
        result.known_batches.extend(group.known_timestamps)
        result.known_timestamps.extend(group.known_timestamps.values())
    for batch, failure in (failures or {}).items():
        result.failures.add(
            batch=batch,
            error_code=failure.error_code,
            outcome=pb.AppendOutcome.ValueType(failure.outcome),
            message=failure.message,
            leader=failure.leader,
            leader_epoch=failure.leader_epoch,
            record_errors=[
                pb.AppendRecordError(batch_index=index, message=message)
                for index, message in failure.record_errors
            ],
        )
    return result


def decode_response(message: Message) -> pb.AppendResponse:
    """The response; raises HopFramingError."""
    try:
        return pb.AppendResponse.FromString(message)  # type: ignore[arg-type]  # As above.
    except DecodeError as error:
        raise HopFramingError(f"malformed AppendResponse: {error}") from None


def apply_result(result: pb.AppendGroupResult, group: AppendGroup) -> None:
    """Completes the sender's group from the outcome."""
    failures = None
    if result.failures:
        failures = {
            f.batch: Failure(
                f.error_code,
                f.message,
                outcome=f.outcome,
                leader=f.leader,
                leader_epoch=f.leader_epoch,
                record_errors=[(error.batch_index, error.message) for error in f.record_errors],
            )
            for f in result.failures
        }
    group.log_start_offset = result.log_start_offset
    group.log_append_time_ms = result.log_append_time_ms
    group.throttle_ms = result.throttle_ms
    known = zip(result.known_batches, result.known_timestamps, strict=False)
    group.known_timestamps = dict(known) if result.known_batches else None
    base_offsets = list(result.base_offsets)
    if failures is not None and max(failures) >= len(group.batches):
        raise HopFramingError(f"a failure of batch {max(failures)} of {len(group.batches)}")
    if len(base_offsets) != len(group.batches):
        raise HopFramingError(f"{len(base_offsets)} results for {len(group.batches)} batches")
    group.complete(base_offsets, failures)
