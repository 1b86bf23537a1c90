"""Unary calls to other nodes, by node id; see `range_client` for those that repairs make."""

from collections.abc import Callable
from typing import TypeVar

from highwater.hop.channels import HopChannels
from highwater.hop.transport import HopChannel, path_of
from highwater.model.cluster import ClusterImage
from highwater.rpc.errors import RpcError

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class NodeCalls:
    """Lives from the node's start to `close`, on one loop. A channel is opened when its node is
    called first, and closed when a call fails, so that the next one connects at once.
    """

    def __init__(self, channels: HopChannels) -> None:
        self._all_channels = channels
        self._addresses: dict[int, str] = {}
        self._channels: dict[str, HopChannel] = {}

    def image_changed(self, image: ClusterImage) -> None:
        """Take the other nodes' addresses."""
        self._addresses = {int(node.node_id): node.address for node in image.nodes.values()}

    async def call(
        self,
        node: int,
        method: str,
        request: RequestT,
        *,
        serialize: Callable[[RequestT], bytes],
        deserialize: Callable[[bytes], ResponseT],
        timeout_s: float,
    ) -> ResponseT | None:
        """The answer to a method of PartitionService; None if the node gives none."""
        address = self._addresses.get(node)
        if not address:
            return None
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._all_channels.open(address)
        try:
            return await channel.unary(
                path_of(method),
                request,
                serialize=serialize,
                deserialize=lambda data: deserialize(bytes(data)),
                timeout_s=timeout_s,
            )
        except RpcError:
            if self._channels.get(address) is channel:
                del self._channels[address]
                await self._all_channels.close(channel)
            return None

    async def close(self) -> None:
        """Close all channels."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await self._all_channels.close(channel)
