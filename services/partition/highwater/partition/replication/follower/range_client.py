"""Asks replicas on other nodes for batches that are damaged on this node's disk (ReadRange)."""

import asyncio
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.channels import HopChannels
from highwater.hop.transport import HopChannel, path_of
from highwater.model.cluster import ClusterImage
from highwater.model.ids import TopicId
from highwater.partition.core.repair import Outcome, outcome_of_refusal
from highwater.rpc.errors import RpcError

TIMEOUT_S: Final = 5.0
ANSWER_BYTES_MAX: Final = 1 << 20


class RangeClient:
    """Lives from the node's start to `close`, on one loop. A channel is opened when its node is
    asked first, and closed when a call fails.
    """

    def __init__(self, channels: HopChannels) -> None:
        self._all_channels = channels
        self._addresses: dict[int, str] = {}
        self._channels: dict[str, HopChannel] = {}
        self._turn = asyncio.Lock()
        """One call at a time: repairs are slow on purpose, and a failed call closes its channel."""

    def image_changed(self, image: ClusterImage) -> None:
        """Take the other nodes' addresses."""
        self._addresses = {int(node.node_id): node.address for node in image.nodes.values()}

    async def ask(
        self,
        node: int,
        topic_id: TopicId,
        partition: int,
        leader_epoch: int,
        offset: int,
        end_offset: int,
    ) -> bytes | Outcome:
        """The next whole batches of a range, or why there are none. An empty range gives none; it
        only asks whether the replica lives and has all of its log.
        """
        address = self._addresses.get(node)
        if not address:
            return Outcome.SILENT
        request = pb.ReadRangeRequest(
            topic_id=topic_id,
            partition=partition,
            leader_epoch=leader_epoch,
            offset=offset,
            end_offset=end_offset,
            max_bytes=ANSWER_BYTES_MAX,
        )
        async with self._turn:
            return await self._call(address, request)

    async def _call(self, address: str, request: pb.ReadRangeRequest) -> bytes | Outcome:
        try:
            answer = await self._channel(address).unary(
                path_of("ReadRange"),
                request,
                serialize=pb.ReadRangeRequest.SerializeToString,
                # Generated code declares bytes and takes any buffer.
                deserialize=pb.ReadRangeResponse.FromString,  # type: ignore[arg-type]
                timeout_s=TIMEOUT_S,
            )
        except RpcError:
            await self._close(address)
            return Outcome.SILENT
        if answer.error_code:
            return outcome_of_refusal(answer.error_code)
        return answer.records

    def _channel(self, address: str) -> HopChannel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._all_channels.open(address)
        return channel

    async def _close(self, address: str) -> None:
        """Close the channel, so that the next call connects at once."""
        channel = self._channels.pop(address, None)
        if channel is not None:
            await self._all_channels.close(channel)

    async def close(self) -> None:
        """Close all channels."""
        for address in list(self._channels):
            await self._close(address)
