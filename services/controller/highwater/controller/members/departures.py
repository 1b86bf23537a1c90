"""Gateways that stop: clients get others while they still serve, and nobody waits for them after that."""

from collections.abc import Awaitable, Callable

from highwater.controller.core.gateways import take_leave
from highwater.controller.image.writer import MetadataWriter
from highwater.controller.store.port import StoreUnavailableError
from highwater.model.errors import LimitExceededError
from highwater.model.ids import GatewayId
from highwater.runtime.logging import Logger


class GatewayDepartures:
    """Of one term."""

    def __init__(
        self,
        writer: MetadataWriter,
        others_know: Callable[[int], Awaitable[bool]],
        log: Logger,
    ) -> None:
        """`others_know` waits briefly until all live members have applied a revision; false if they have not."""
        self._writer = writer
        self._others_know = others_know
        self._log = log
        self._left_at: dict[GatewayId, int] = {}
        """The revision from which on clients get others; of gateways with a session."""

    async def leaves(self, gateway_id: GatewayId, applied_revision: int) -> bool:
        """Removes a gateway from the image, if others stay there; true once it and all members know."""
        try:
            removed, revision = await self._writer.commit(
                lambda image: take_leave(image, gateway_id)
            )
        except (StoreUnavailableError, LimitExceededError) as error:
            self._log.warning("cannot_remove_gateway", gateway=gateway_id, error=str(error))
            return False
        if removed:
            self._left_at[gateway_id] = revision
        revision = self._left_at.setdefault(gateway_id, revision)
        if applied_revision < revision:
            # It still names itself; its next heartbeat follows as soon as it does not.
            return False
        return await self._others_know(revision)

    def over(self, gateway_id: GatewayId) -> None:
        """Its session has ended, or it has registered again."""
        self._left_at.pop(gateway_id, None)
