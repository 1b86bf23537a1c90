import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import update_features as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from tests.unit.gateway.handlers.fakes import (
    Client,
    DenySome,
    FakeBackend,
)

VERSIONS = range(3)
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def ask(version, *updates):
    """`updates` are (feature, level, upgrade type)."""
    return codec.UpdateFeaturesRequest(
        feature_updates=[
            codec.UpdateFeaturesRequestFeatureUpdateKey(
                name, level, **({"upgrade_type": kind} if version else {})
            )
            for name, level, kind in updates
        ]
    )


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_only_level_is_taken(version):
    levels = {"metadata.version": 25, "group.version": 1, "transaction.version": 2}
    request = ask(version, *((name, level, UPGRADE) for name, level in levels.items()))
    response = await Client(FakeBackend()).call(request, version)
    assert (response.error_code, response.error_message) == (0, None)
    names = [(one.feature, one.error_code) for one in response.results]
    assert names == ([(name, 0) for name in levels] if version < 2 else [])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "level", "why"),
    [
        ("metadata.version", 26, "only supports versions 25-25"),
        ("metadata.version", 7, "only supports versions 25-25"),
        ("transaction.version", 3, "only supports versions 0-2"),
        ("transaction.version", 1, "cannot be lowered from 2"),
        ("transaction.version", -1, "cannot be less than 0"),
        ("share.version", 1, "does not support this feature"),
    ],
)
async def test_no_other_level(version, name, level, why):
    request = ask(version, ("group.version", 1, UPGRADE), (name, level, UPGRADE))
    response = await Client(FakeBackend()).call(request, version)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"Invalid update version {level} for feature {name}. " in response.error_message
    assert why in response.error_message
    assert not response.results


@pytest.mark.parametrize(("kind", "code"), [(SAFE, 0), (UNSAFE, 0), (0, 95), (4, 95)])
async def test_upgrade_types(kind, code):
    response = await Client(FakeBackend()).call(ask(2, ("group.version", 1, kind)), 2)
    assert response.error_code == code


@pytest.mark.parametrize("version", VERSIONS)
async def test_it_needs_alter_on_the_cluster(version):
    backend = FakeBackend()
    backend.authorizer = DenySome((AclOperation.ALTER, THE_CLUSTER))
    response = await Client(backend).call(ask(version, ("group.version", 1, UPGRADE)), version)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
