"""Client quotas in a term of office."""

from collections.abc import AsyncIterator

import pytest

from highwater.controller.active.active import ActiveController
from highwater.controller.core.change_client_quotas import QuotaAlteration
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.ids import DEFAULT_INSTANCE
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
