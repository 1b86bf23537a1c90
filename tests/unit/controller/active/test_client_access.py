"""Client quotas and SCRAM users in a term of office."""

from collections.abc import AsyncIterator

import pytest

from highwater.controller.active.active import ActiveController
from highwater.controller.core.change_client_quotas import QuotaAlteration
from highwater.controller.core.change_scram_users import ScramChange
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism
from tests.support.controller import started

ENTITY = (("user", "a"),)


@pytest.fixture
async def active() -> AsyncIterator[ActiveController]:
    service = await started()
    yield await service.wait_active(5.0)
    await service.stop()


async def test_quotas_are_in_the_image_when_the_change_is_answered(
    active: ActiveController,
) -> None:
    wanted = [QuotaAlteration(entity=ENTITY, operations=[("producer_byte_rate", 5.0)])]
    access, before = active.client_access, active.image.revision
    outcomes, revision = await access.alter_client_quotas(
        DEFAULT_INSTANCE, wanted, validate_only=True
    )
    assert (outcomes, revision, active.image.client_quotas) == ([None], before, {})
    outcomes, revision = await access.alter_client_quotas(
        DEFAULT_INSTANCE, wanted, validate_only=False
    )
    assert outcomes == [None]
    assert revision == active.image.revision > before
    assert active.image.client_quotas == {
        ClientQuotaKey(DEFAULT_INSTANCE, ENTITY): {"producer_byte_rate": 5.0}
    }


async def test_users_are_known_when_the_change_is_answered(active: ActiveController) -> None:
    credential = ScramCredential(iterations=4_096, salt=b"s", stored_key=b"a", server_key=b"b")
    access, before = active.client_access, active.image.revision
    change = ScramChange(user="a", mechanism=1, credential=credential)
    outcomes, revision = await access.alter_scram_users(DEFAULT_INSTANCE, [change])
    assert outcomes == {"a": None}
    assert revision == active.image.revision > before
    key = ScramKey(DEFAULT_INSTANCE, "a", ScramMechanism.SCRAM_SHA_256)
    assert active.image.scram_credentials == {key: credential}
    (described,) = access.describe_scram_users(DEFAULT_INSTANCE, [])
    assert described.iterations == ((ScramMechanism.SCRAM_SHA_256, 4_096),)
