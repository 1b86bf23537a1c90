"""What clients may use, and are to tell, survives its controller, in every kind of store."""

from typing import Any, cast

from highwater.api.controller.v1 import cluster_pb2
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.service import ControllerService
from highwater.controller.store.port import MetadataStore
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_access import acl_to_pb, entity_to_pb
from highwater.model.client_metrics import ClientMetricsKey
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.group_config_table import GroupConfigKey
from highwater.model.ids import DEFAULT_INSTANCE
from tests.support.acls import acl
from tests.support.controller import START_TIMEOUT_S, controller_config, endpoints_of
from tests.support.lasting_store import Lasting

NAMES = ("CN=a,O=b/c", "ü &%", None)


async def controller(store: MetadataStore, controller_id: str) -> ControllerService:
    """Starts a controller that becomes the active one."""
    config = controller_config(controller_id=controller_id)
    lasting = cast("MetadataStore", Lasting(store))
    service = ControllerService(config, store=lasting, serve_grpc=False)
    await service.start()
    await service.wait_active(START_TIMEOUT_S)
    return service


async def alter(service: ControllerService, **values: float | None) -> list[int]:
    """Changes the quotas of all NAMES."""
    response = await ControllerClient(endpoints_of(service)).alter_client_quotas(
        pb.AlterClientQuotasRequest(
            alterations=[
                pb.ClientQuotaAlteration(
                    entity=entity_to_pb((("user", name),)),
                    operations=[
                        pb.ClientQuotaOperation(key=key, value=value)
                        for key, value in values.items()
                    ],
                )
                for name in NAMES
            ]
        )
    )
    return [error.error_code for error in response.errors]


async def test_client_quotas_survive_their_controller(store: MetadataStore) -> None:
    first = await controller(store, "c1")
    assert await alter(first, producer_byte_rate=10.0, request_percentage=0.1) == [0, 0, 0]
    await first.stop()
    second = await controller(store, "c2")
    found = (await second.wait_active(START_TIMEOUT_S)).image.client_quotas
    assert found == {
        ClientQuotaKey(DEFAULT_INSTANCE, (("user", name),)): {
            "producer_byte_rate": 10.0,
            "request_percentage": 0.1,
        }
        for name in NAMES
    }
    assert await alter(second, producer_byte_rate=None, request_percentage=None) == [0, 0, 0]
    assert (await store.range("client_quotas/")).entries == ()
    await second.stop()


async def test_client_metrics_survive_their_controller(store: MetadataStore) -> None:
    async def change(service: ControllerService, **fields: Any) -> list[int]:
        changes = [
            pb.ConfigChange(type=pb.CONFIG_RESOURCE_TYPE_CLIENT_METRICS, name=name, **fields)
            for name in NAMES
            if name is not None
        ]
        request = pb.AlterConfigsRequest(changes=changes, instance=DEFAULT_INSTANCE)
        answer = await ControllerClient(endpoints_of(service)).alter_configs(request)
        return [error.error_code for error in answer.errors]

    first = await controller(store, "c1")
    assert await change(first, set={"metrics": "*", "match": "client_id=ä"}) == [0, 0]
    await first.stop()
    second = await controller(store, "c2")
    found = (await second.wait_active(START_TIMEOUT_S)).image.client_metrics
    assert found == {
        ClientMetricsKey(DEFAULT_INSTANCE, name): {"metrics": "*", "match": "client_id=ä"}
        for name in NAMES
        if name is not None
    }
    assert await change(second, replace_all=True) == [0, 0]
    assert (await store.range("client_metrics/")).entries == ()
    await second.stop()


async def test_configs_of_groups_survive_their_controller(store: MetadataStore) -> None:
    groups = [name for name in NAMES if name is not None]
    configs = {"consumer.session.timeout.ms": "50000"}

    async def change(service: ControllerService, **fields: Any) -> list[int]:
        changes = [
            pb.ConfigChange(type=pb.CONFIG_RESOURCE_TYPE_GROUP, name=name, **fields)
            for name in groups
        ]
        request = pb.AlterConfigsRequest(changes=changes, instance=DEFAULT_INSTANCE)
        answer = await ControllerClient(endpoints_of(service)).alter_configs(request)
        return [error.error_code for error in answer.errors]

    first = await controller(store, "c1")
    assert await change(first, set=configs) == [0, 0]
    await first.stop()
    second = await controller(store, "c2")
    found = (await second.wait_active(START_TIMEOUT_S)).image.group_configs
    assert found == {GroupConfigKey(DEFAULT_INSTANCE, name): configs for name in groups}
    assert await change(second, replace_all=True) == [0, 0]
    assert (await store.range("group_configs/")).entries == ()
    await second.stop()


async def test_scram_users_survive_their_controller(store: MetadataStore) -> None:
    users = [user for user in NAMES if user is not None]
    credential = cluster_pb2.ScramCredential(
        iterations=5_000, salt=b"\0s", stored_key=b"\xffk", server_key=b"\xfev"
    )
    changes = [pb.ScramChange(user=user, mechanism=2, credential=credential) for user in users]
    first = await controller(store, "c1")
    answer = await ControllerClient(endpoints_of(first)).alter_scram_users(
        pb.AlterScramUsersRequest(changes=changes)
    )
    assert [user.error.error_code for user in answer.users] == [0, 0]
    before = (await first.wait_active(START_TIMEOUT_S)).image.scram_credentials
    await first.stop()
    second = await controller(store, "c2")
    client = ControllerClient(endpoints_of(second))
    found = await client.describe_scram_users(pb.DescribeScramUsersRequest())
    told = {
        user.user: [(c.mechanism, c.iterations) for c in user.credentials] for user in found.users
    }
    assert told == {user: [(2, 5_000)] for user in users}
    after = (await second.wait_active(START_TIMEOUT_S)).image.scram_credentials
    assert after == before
    for kept in after.values():
        assert (kept.salt, kept.stored_key, kept.server_key) == (b"\0s", b"\xffk", b"\xfev")
    removed = [pb.ScramChange(user=user, mechanism=2) for user in users]
    await client.alter_scram_users(pb.AlterScramUsersRequest(changes=removed))
    assert (await store.range("scram_credentials/")).entries == ()
    await second.stop()


async def test_acls_survive_their_controller(store: MetadataStore) -> None:
    entries = {acl(name, principal=f"User:{name}") for name in NAMES if name is not None}
    first = await controller(store, "c1")
    request = pb.CreateAclsRequest(acls=map(acl_to_pb, entries))
    created = await ControllerClient(endpoints_of(first)).create_acls(request)
    assert [error.error_code for error in created.errors] == [0] * len(entries)
    await first.stop()
    second = await controller(store, "c2")
    assert (await second.wait_active(START_TIMEOUT_S)).image.acls == entries
    all_of_them = pb.AclFilter(
        instance=DEFAULT_INSTANCE, resource_type=1, pattern_type=1, operation=1, permission=1
    )
    await ControllerClient(endpoints_of(second)).delete_acls(
        pb.DeleteAclsRequest(filters=[all_of_them])
    )
    assert (await store.range("acls/")).entries == ()
    await second.stop()
