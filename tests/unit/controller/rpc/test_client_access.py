"""Client quotas and SCRAM users from a caller to the image and back."""

from highwater.api.controller.v1 import cluster_pb2
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.rpc.client_access import quota_alteration, scram_change
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_access import acl_to_pb, entity_to_pb
from highwater.metadata.watch import ClusterWatch
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.scram import ScramKey, ScramMechanism
from tests.support.acls import acl
from tests.support.controller import make_instance

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
    await make_instance(client, "other")

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


CREDENTIAL = cluster_pb2.ScramCredential(
    iterations=5_000, salt=b"secret-1", stored_key=b"secret-2", server_key=b"secret-3"
)


def test_no_credential_is_a_removal() -> None:
    assert scram_change(pb.ScramChange(user="a", mechanism=1)).credential is None
    read = scram_change(pb.ScramChange(user="a", mechanism=1, credential=CREDENTIAL)).credential
    assert read is not None
    assert (read.iterations, read.salt) == (5_000, b"secret-1")
    assert (read.stored_key, read.server_key) == (b"secret-2", b"secret-3")


async def test_users_are_described_and_members_get_their_credentials(
    client: ControllerClient, watch: ClusterWatch
) -> None:
    async def alter(instance: str, *changes: pb.ScramChange) -> dict[str, int]:
        response = await client.alter_scram_users(
            pb.AlterScramUsersRequest(instance=instance, changes=changes)
        )
        await watch.wait_for_revision(response.revision, 5.0)
        return {user.user: user.error.error_code for user in response.users}

    async def describe(instance: str, *users: str) -> dict[str, tuple[int, dict[int, int]]]:
        response = await client.describe_scram_users(
            pb.DescribeScramUsersRequest(instance=instance, users=users)
        )
        return {
            user.user: (
                user.error.error_code,
                {one.mechanism: one.iterations for one in user.credentials},
            )
            for user in response.users
        }

    await make_instance(client, "other")
    new = [pb.ScramChange(user=user, mechanism=2, credential=CREDENTIAL) for user in "ab"]
    assert await alter("", *new) == {"a": 0, "b": 0}
    assert await describe("") == {"a": (0, {2: 5_000}), "b": (0, {2: 5_000})}
    assert await describe("other") == {}
    gone = pb.ScramChange(user="a", mechanism=2)
    missing = int(ErrorCode.RESOURCE_NOT_FOUND)
    assert await alter("other", gone) == {"a": missing}
    assert await alter("", gone) == {"a": 0}
    assert await describe("", "a", "b") == {"a": (missing, {}), "b": (0, {2: 5_000})}
    assert watch.image is not None
    ((key, credential),) = watch.image.scram_credentials.items()
    assert key == ScramKey(DEFAULT_INSTANCE, "b", ScramMechanism.SCRAM_SHA_512)
    assert (credential.iterations, credential.stored_key) == (5_000, b"secret-2")


async def test_acls_are_added_and_removed(client: ControllerClient, watch: ClusterWatch) -> None:
    await make_instance(client, "other")
    mine, other = acl("t"), acl("t", instance=InstanceId("other"))
    bad = acl(principal="alice")
    created = await client.create_acls(
        pb.CreateAclsRequest(acls=map(acl_to_pb, [mine, bad, other]))
    )
    assert [error.error_code for error in created.errors] == [0, ErrorCode.INVALID_REQUEST, 0]
    await watch.wait_for_revision(created.revision, 5.0)
    assert watch.image is not None
    assert watch.image.acls == {mine, other}
    all_mine = pb.AclFilter(
        instance=DEFAULT_INSTANCE, resource_type=1, pattern_type=1, operation=1, permission=1
    )
    named = pb.AclFilter()
    named.CopyFrom(all_mine)
    named.name = "u"
    unknown = pb.AclFilter(resource_type=99)
    deleted = await client.delete_acls(pb.DeleteAclsRequest(filters=[named, all_mine, unknown]))
    assert [(len(one.acls), one.error.error_code) for one in deleted.removals] == [
        (0, 0), (1, 0), (0, ErrorCode.INVALID_REQUEST),
    ]  # fmt: skip
    await watch.wait_for_revision(deleted.revision, 5.0)
    assert watch.image.acls == {other}
