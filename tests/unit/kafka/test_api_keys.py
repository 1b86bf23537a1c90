"""API keys and header versions agree with kio's copy of Kafka's schemas."""

import importlib

import pytest
from kio.schema.index import api_key_map, schema_name_map

from highwater.kafka.api_keys import (
    NEVER_FLEXIBLE,
    ApiKey,
    first_flexible_version,
    request_header_version,
    response_header_version,
)

# Removed in Kafka 4.0, so the oracle does not have them.
REMOVED_KEYS = {4, 5, 6, 7}


def test_every_key_of_the_oracle_is_known_by_the_same_name() -> None:
    assert {int(key): key.name.lower() for key in ApiKey if key not in REMOVED_KEYS} == api_key_map


@pytest.mark.parametrize("api_key", sorted(api_key_map))
def test_flexibility_of_every_version_matches_the_oracle(api_key: int) -> None:
    name = api_key_map[api_key]
    for version in schema_name_map[name]:
        module = importlib.import_module(f"kio.schema.{name}.v{version}.request")
        request = next(
            value
            for value in vars(module).values()
            if isinstance(value, type) and getattr(value, "__module__", "") == module.__name__
        )
        flexible = vars(request)["__flexible__"]
        assert (version >= first_flexible_version(api_key)) is flexible
        assert request_header_version(api_key, version) == (2 if flexible else 1)
        expected = 1 if flexible and api_key != ApiKey.API_VERSIONS else 0
        assert response_header_version(api_key, version) == expected


def test_api_versions_always_answers_with_header_version_0() -> None:
    assert [response_header_version(ApiKey.API_VERSIONS, v) for v in range(6)] == [0] * 6
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2


def test_sasl_handshake_and_unknown_keys_are_never_flexible() -> None:
    assert first_flexible_version(ApiKey.SASL_HANDSHAKE) == NEVER_FLEXIBLE
    assert request_header_version(ApiKey.SASL_HANDSHAKE, 1) == 1
    assert request_header_version(9_999, 7) == 1
    assert response_header_version(9_999, 7) == 0
