"""Client quotas from a caller to the image and back."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.rpc.client_access import quota_alteration
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert import entity_to_pb
from highwater.metadata.watch import ClusterWatch
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId

ENTITY = (("client-id", None), ("user", "a"))


def alteration(**values: float | None) -> pb.ClientQuotaAlteration:
    return pb.ClientQuotaAlteration(
        entity=entity_to_pb(ENTITY),
        operations=[pb.ClientQuotaOperation(key=key, value=value) for key, value in values.items()],
    )


def test_a_value_of_zero_is_not_a_removal() -> None:
    read = quota_alteration(alteration(a=0.0, b=None))
    assert read.entity == ENTITY
    assert read.operations == [("a", 0.0), ("b", None)]


async def test_every_member_gets_the_quotas(client: ControllerClient, watch: ClusterWatch) -> None:
    async def alter(instance: str, change: pb.ClientQuotaAlteration) -> int:
        response = await client.alter_client_quotas(
            pb.AlterClientQuotasRequest(instance=instance, alterations=[change])
        )
        await watch.wait_for_revision(response.revision, 5.0)
        return response.errors[0].error_code

    assert await alter("", alteration(producer_byte_rate=1024.0, request_percentage=0.5)) == 0
    assert await alter("other", alteration(producer_byte_rate=7.0)) == 0
    assert await alter("", alteration(producer_byte_rate=None)) == 0
    assert await alter("", alteration(no_such_quota=1.0)) == ErrorCode.INVALID_REQUEST
    assert watch.image is not None
    mine, others = (
        ClientQuotaKey(instance, ENTITY) for instance in (DEFAULT_INSTANCE, InstanceId("other"))
    )
    expected = {mine: {"request_percentage": 0.5}, others: {"producer_byte_rate": 7.0}}
    assert watch.image.client_quotas == expected
    late = ClusterWatch(client._endpoints)
    late.start()
    assert (await late.wait_for_revision(1, 5.0)).client_quotas == expected
    await late.stop()
