"""Who may come, what they may do, and how much: SCRAM users, ACLs and client quotas."""

from collections.abc import Sequence

from highwater.controller.core.change_acls import Removal, create_acls, delete_acls
from highwater.controller.core.change_client_quotas import QuotaAlteration, altering_client_quotas
from highwater.controller.core.change_scram_users import (
    ScramChange,
    ScramUser,
    alter_scram_users,
    describe_scram_users,
)
from highwater.controller.core.outcome import Decision, Refusal
from highwater.controller.image.writer import MetadataWriter
from highwater.model.acls import Acl, AclFilter
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

    async def alter_scram_users(
        self, instance: InstanceId, changes: Sequence[ScramChange]
    ) -> tuple[dict[str, Refusal | None], int]:
        """AlterUserScramCredentials; outcomes by user, and revision."""
        return await self._writer.commit(lambda image: alter_scram_users(image, instance, changes))

    def describe_scram_users(self, instance: InstanceId, users: Sequence[str]) -> list[ScramUser]:
        """DescribeUserScramCredentials, of all users if none is named."""
        return describe_scram_users(self._writer.image, instance, users)

    async def create_acls(self, acls: Sequence[Acl]) -> tuple[list[Refusal | None], int]:
        """CreateAcls, all of one instance; outcomes and revision."""
        return await self._writer.commit(lambda image: create_acls(image, acls))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> tuple[list[Removal], int]:
        """DeleteAcls; outcomes and revision."""
        return await self._writer.commit(lambda image: delete_acls(image, filters))
