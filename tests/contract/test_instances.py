"""Instances survive their controller, and so does the purge of one, in every kind of store."""

from typing import cast

import pytest

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.active import instances
from highwater.controller.core import purge_instances
from highwater.controller.service import ControllerService
from highwater.controller.store import keys
from highwater.controller.store.port import MetadataStore
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_access import acl_to_pb, entity_to_pb
from highwater.model.cluster import ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from tests.support.acls import acl
from tests.support.controller import (
    START_TIMEOUT_S,
    controller_config,
    endpoints_of,
    make_instance,
    node,
    topic,
)
from tests.support.lasting_store import Lasting

SHOP, OTHER = InstanceId("shop"), InstanceId("other")


@pytest.fixture(autouse=True)
def _tests_purge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "CHECK_S", 3600.0)
    monkeypatch.setattr(purge_instances, "TOPICS_PER_SLICE", 2)


async def controller(store: MetadataStore, controller_id: str) -> ControllerService:
    """Starts a controller that becomes the active one."""
    service = ControllerService(
        controller_config(controller_id=controller_id),
        store=cast("MetadataStore", Lasting(store)),
        serve_grpc=False,
    )
    await service.start()
    active = await service.wait_active(START_TIMEOUT_S)
    await active.check_seen(0)
    return service


async def image_of(service: ControllerService) -> ClusterImage:
    return (await service.wait_active(START_TIMEOUT_S)).image


async def fill(client: ControllerClient, instance: str) -> None:
    """Three topics, and one of everything else."""
    await make_instance(client, instance)
    topics = pb.CreateTopicsRequest(instance=instance, topics=[topic(f"t{n}") for n in range(3)])
    credential = {"iterations": 5_000, "salt": b"s", "stored_key": b"a", "server_key": b"b"}
    user = pb.ScramChange(user="ü/u", mechanism=1, credential=credential)  # type: ignore[arg-type]
    quota = pb.ClientQuotaAlteration(
        entity=entity_to_pb((("user", "ü/u"),)),
        operations=[pb.ClientQuotaOperation(key="producer_byte_rate", value=9.0)],
    )
    metrics = pb.ConfigChange(
        type=pb.CONFIG_RESOURCE_TYPE_CLIENT_METRICS, name="ü/m", set={"interval.ms": "1000"}
    )
    group = pb.ConfigChange(
        type=pb.CONFIG_RESOURCE_TYPE_GROUP,
        name="ü/g",
        set={"consumer.session.timeout.ms": "50000"},
    )
    created = await client.create_topics(topics)
    acls = await client.create_acls(
        pb.CreateAclsRequest(acls=[acl_to_pb(acl("ü/t", instance=InstanceId(instance)))])
    )
    users = await client.alter_scram_users(
        pb.AlterScramUsersRequest(instance=instance, changes=[user])
    )
    quotas = await client.alter_client_quotas(
        pb.AlterClientQuotasRequest(instance=instance, alterations=[quota])
    )
    configs = await client.alter_configs(
        pb.AlterConfigsRequest(instance=instance, changes=[metrics, group])
    )
    errors = [r.error for r in created.results] + [u.error for u in users.users]
    errors += [*acls.errors, *quotas.errors, *configs.errors]
    assert [e.error_code for e in errors] == [0] * 8


async def keys_of(store: MetadataStore) -> list[str]:
    """Keys of what instances have, and how many of each kind."""
    entries = (await store.range("")).entries
    kinds = (
        keys.INSTANCES, keys.TOPICS, keys.PARTITIONS, keys.SCRAM_CREDENTIALS, keys.ACLS,
        keys.CLIENT_QUOTAS, keys.CLIENT_METRICS, keys.GROUP_CONFIGS,
    )  # fmt: skip
    return sorted(entry.key for entry in entries if entry.key.startswith(kinds))


async def test_instances_survive_their_controller(store: MetadataStore) -> None:
    first = await controller(store, "c1")
    wanted = InstanceState(
        instance=SHOP,
        produce_bytes_per_second=0,
        storage_bytes=5,
        listeners=(
            InstanceListener(port=19_000, advertised_host="kafka.example", advertised_port=9092),
        ),
        allowed_networks=(),
        partitions_max=3,
        delete_protection=True,
    )
    active = await first.wait_active(START_TIMEOUT_S)
    assert (await active.instances.create(wanted))[0] is None
    await first.stop()
    second = await controller(store, "c2")
    assert (await image_of(second)).instances == {SHOP: wanted}
    await second.stop()


async def test_a_purge_goes_on_with_the_next_controller_after_any_slice(
    store: MetadataStore,
) -> None:
    service = await controller(store, "c0")
    client = ControllerClient(endpoints_of(service))
    await node(client, 1).join()
    await fill(client, OTHER)
    left = await keys_of(store)
    await fill(client, SHOP)
    assert len(await keys_of(store)) == 2 * len(left)
    deleted = await client.delete_instance(
        pb.DeleteInstanceRequest(instance=SHOP, purge_after_ms=0)
    )
    assert deleted.error.error_code == 0
    terms = 0
    while SHOP in (await image_of(service)).instances:
        step = await (await service.wait_active(START_TIMEOUT_S)).instances._slice()
        assert step is not None
        await service.stop()
        terms += 1
        service = await controller(store, f"c{terms}")
    assert terms == 4, "two slices of topics, one of the rest, and the instance"
    assert await keys_of(store) == left
    await service.stop()
