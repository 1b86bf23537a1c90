import importlib
import inspect

import pytest

from highwater.gateway.handling.apis import APIS, APIS_WITH_OLD_FORMATS
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.registry import request_codec

# The expected ApiVersions response, by API key. docs/apis.md lists it for users.
ADVERTISED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9),
    12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (1, 1), 18: (0, 4), 19: (2, 7), 20: (1, 6),
    21: (0, 2), 22: (0, 5), 23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5), 29: (1, 3), 30: (1, 3), 31: (1, 3),
    32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3),
    38: (1, 3), 39: (1, 2), 40: (1, 2), 41: (1, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1),
    45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0),
    51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 64: (0, 0), 65: (0, 0), 66: (0, 2),
    68: (0, 1), 69: (0, 1), 74: (0, 1),
    75: (0, 0),
}  # fmt: skip


def test_advertised_ranges():
    assert {key: (api.min_version, api.max_version) for key, api in APIS.items()} == ADVERTISED


def test_keys_ascend_because_librdkafka_bisects():
    assert list(APIS) == sorted(APIS)


def test_produce_is_advertised_from_0_and_served_from_3():
    produce = APIS[ApiKey.PRODUCE]
    assert not produce.serves(2)
    assert produce.serves(3)
    assert produce.serves(13)
    assert not produce.serves(14)


def test_old_message_formats_add_the_versions_that_have_them():
    changed = {
        key: (row.min_version, row.served_from, row.max_version)
        for key, row in APIS_WITH_OLD_FORMATS.items()
        if row != APIS[key]
    }
    assert changed == {0: (0, 0, 13), 1: (0, 0, 18), 2: (0, 0, 11)}
    assert list(APIS_WITH_OLD_FORMATS) == list(APIS)


def test_topic_ids_are_all_or_none():
    """Clients learn ids from Metadata, and then expect Produce and Fetch to know them."""
    with_ids = {ApiKey.METADATA: 10, ApiKey.FETCH: 13, ApiKey.PRODUCE: 13}
    assert len({APIS[key].serves(version) for key, version in with_ids.items()}) == 1


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        pytest.param(ApiKey.FETCH, 4, 4, id="MsgVer2"),
        pytest.param(ApiKey.PRODUCE, 7, 7, id="ZSTD"),
        pytest.param(ApiKey.FETCH, 10, 10, id="ZSTD-fetch"),
        pytest.param(ApiKey.FIND_COORDINATOR, 0, 0, id="BrokerGroupCoordinator"),
        pytest.param(ApiKey.OFFSET_COMMIT, 1, 2, id="offset-commit"),
        pytest.param(ApiKey.OFFSET_FETCH, 1, 1, id="offset-fetch"),
        pytest.param(ApiKey.JOIN_GROUP, 0, 0, id="join"),
        pytest.param(ApiKey.SYNC_GROUP, 0, 0, id="sync"),
        pytest.param(ApiKey.HEARTBEAT, 0, 0, id="heartbeat"),
        pytest.param(ApiKey.LEAVE_GROUP, 0, 0, id="leave"),
        pytest.param(ApiKey.LIST_OFFSETS, 1, 1, id="OffsetTime"),
        pytest.param(ApiKey.INIT_PRODUCER_ID, 0, 0, id="Idempotence"),
    ],
)
def test_ranges_keep_the_features_of_old_librdkafka(key, low, high):
    api = APIS[key]
    assert api.min_version <= high
    assert low <= api.max_version


@pytest.mark.parametrize("api", [a for a in APIS.values() if a.module], ids=lambda a: a.module)
def test_every_row_has_its_handler_and_codec(api):
    module = importlib.import_module(f"highwater.gateway.handlers.{api.module}")
    assert inspect.iscoroutinefunction(module.handle)
    assert callable(module.failure)
    codec = request_codec(api.key)
    assert codec.name == api.module
    assert codec.min_version <= api.served_from <= api.max_version <= codec.max_version
