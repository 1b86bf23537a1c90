import pytest

from highwater.gateway.handling.apis import APIS
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.api_versions import ApiVersionsRequest, decode_response
from tests.unit.gateway.handlers.fakes import Client, FakeBackend

KEY = ApiKey.API_VERSIONS


def request(version, name="librdkafka", software="2.15.0"):
    return ApiVersionsRequest(name, software) if version >= 3 else ApiVersionsRequest()


@pytest.mark.parametrize("version", range(5))
async def test_every_row_of_the_table_in_order(version):
    response = await Client(FakeBackend()).call(request(version), version)
    assert response.error_code == 0
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [
        (api.key, api.min_version, api.max_version) for api in APIS.values()
    ]


async def test_streams_groups_are_not_offered():
    """A client learns from this answer which APIs it may send (KIP-1071, docs/compatibility.md)."""
    response = await Client(FakeBackend()).call(request(4), 4)
    streams = {ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE}
    assert not streams & {key.api_key for key in response.api_keys}
    assert "streams.version" not in {f.name for f in response.supported_features}


@pytest.mark.parametrize("version", range(5))
async def test_features(version):
    response = await Client(FakeBackend()).call(request(version), version)
    told = {(f.name, f.min_version, f.max_version) for f in response.supported_features}
    at_0 = {("transaction.version", 0, 2)}
    assert told == (
        ({("metadata.version", 25, 25), ("group.version", 1, 1)} if version >= 3 else set())
        | (at_0 if version >= 4 else set())
    )
    on = [(f.name, f.min_version_level, f.max_version_level) for f in response.finalized_features]
    finalized = [
        ("group.version", 1, 1),
        ("metadata.version", 25, 25),
        ("transaction.version", 2, 2),
    ]
    assert on == (finalized if version >= 3 else [])
    assert response.finalized_features_epoch == (0 if version >= 3 else -1)


async def test_version_0_byte_by_byte():
    body = await Client(FakeBackend()).send(KEY, 0, b"")
    assert body[:2] == b"\0\0"
    assert int.from_bytes(body[2:6], "big") == len(APIS)
    assert body[6:12] == bytes([0, 0, 0, 0, 0, 13])  # Produce is advertised from 0.
    assert len(body) == 6 + 6 * len(APIS)


@pytest.mark.parametrize("version", [5, 99, -1])
async def test_an_unknown_version_is_answered_in_the_format_of_version_0(version):
    # KIP-511; the body of an unknown version is not read.
    body = await Client(FakeBackend()).send(KEY, version, b"\xff" * 9)
    assert body == bytes.fromhex("0023 00000001 0012 0000 0004")
    assert decode_response(body, 0, 0).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("name", "software", "fine"),
    [
        ("apache-kafka-java", "3.9.1", True),
        ("a", "1", True),
        ("", "1.0", False),
        ("name", "", False),
        ("-name", "1.0", False),
        ("name.", "1.0", False),
        ("two words", "1.0", False),
        ("name", "1.0\n", False),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
async def test_software_names_are_checked(name, software, fine, version):
    response = await Client(FakeBackend()).call(request(version, name, software), version)
    assert response.error_code == (0 if fine else ErrorCode.INVALID_REQUEST)
    assert bool(response.api_keys) == fine
