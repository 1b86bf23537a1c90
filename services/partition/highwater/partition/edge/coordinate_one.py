"""CoordinateOne: one coordinator call of another node, as a unary call."""

import asyncio

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.coordinator import REPLY_BYTES_MAX, CoordinatorPort
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.edge.coordinator_calls import call_of


async def coordinate_one(
    coordinator: CoordinatorPort, sent: pb.CoordinatorCall
) -> pb.CoordinatorReply:
    """Waits for the coordinator's answer; a caller that goes away cancels the call."""
    answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    def reply(error_code: int, body: bytes) -> None:
        if not answer.done():
            answer.set_result((error_code, body))

    call = call_of(sent, reply)
    coordinator.submit(call)
    try:
        error_code, body = await answer
    except asyncio.CancelledError:
        coordinator.cancel(call)
        raise
    if len(body) > REPLY_BYTES_MAX:
        error_code, body = ErrorCode.UNKNOWN_SERVER_ERROR, b""
    return pb.CoordinatorReply(call_id=sent.call_id, error_code=error_code, body=body)
