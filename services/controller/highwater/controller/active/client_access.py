"""What clients may use, and how much of it: client quotas."""

from collections.abc import Sequence

from highwater.controller.core.change_client_quotas import QuotaAlteration, altering_client_quotas
from highwater.controller.core.outcome import Decision, Refusal
from highwater.controller.image.writer import MetadataWriter
from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.steps import Steps


class ClientAccess:
    """A part of the active controller, for one term. Raises what `MetadataWriter.commit` raises."""

    def __init__(self, writer: MetadataWriter) -> None:
        self._writer = writer

    async def alter_client_quotas(
        self, instance: InstanceId, alterations: Sequence[QuotaAlteration], *, validate_only: bool
    ) -> tuple[list[Refusal | None], int]:
        """AlterClientQuotas; outcomes and revision."""

        def decide(image: ClusterImage) -> Steps[Decision[list[Refusal | None]]]:
            decision = yield from altering_client_quotas(image, instance, alterations)
            if validate_only:
                return Decision(delta=None, result=decision.result)
            return decision

        return await self._writer.commit_in_steps(decide)
