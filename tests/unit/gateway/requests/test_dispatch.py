import pytest

from highwater.gateway.handling.apis import APIS
from highwater.gateway.requests.dispatch import find_api
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError, UnknownApiKeyError, UnsupportedVersionError
from highwater.kafka.messages.heartbeat import HeartbeatRequest
from highwater.kafka.messages.metadata import MetadataRequest, MetadataRequestMetadataRequestTopic
from highwater.kafka.registry import request_codec
from highwater.model.errors import NotControllerError, UnreachableError
from highwater.runtime.log_limit import LINES_PER_WINDOW, VALUE_CHARS_MAX
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import group_topic, image_of
from tests.unit.gateway.handlers.samples import error_codes, sample_request

SERVED = [
    (api, version)
    for api in APIS.values()
    if api.module
    for version in range(api.served_from, api.max_version + 1)
]


def params(pairs):
    return [pytest.param(api, version, id=f"{api.module}-v{version}") for api, version in pairs]


OF_THE_CONNECTION = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
"""They ask nothing of the gateway behind them."""
CAN_BREAK = params(pair for pair in SERVED if pair[0].key not in OF_THE_CONNECTION)
WITH_FIELDS = params(
    (api, version)
    for api, version in SERVED
    if request_codec(api.key).encode_request(sample_request(api.key, version), version)
)


class BrokenBackend(FakeBackend):
    """Raises an unexpected error on every access of a handler."""

    broken = False

    def __getattribute__(self, name):
        if name in {"authorizer", "image", "routing", "shared", "settings"} and type(self).broken:
            raise ZeroDivisionError(name)
        return super().__getattribute__(name)


@pytest.fixture
def broken(monkeypatch):
    backend = BrokenBackend(image_of(group_topic()))
    monkeypatch.setattr(BrokenBackend, "broken", True)
    return backend


@pytest.mark.parametrize(("api", "version"), CAN_BREAK)
async def test_an_unexpected_error_has_the_apis_response_format(broken, api, version):
    codec = request_codec(api.key)
    body = codec.encode_request(sample_request(api.key, version), version)
    answer = await Client(broken).send(api.key, version, body)
    codes = error_codes(codec.decode_response(answer, 0, version))
    assert codes
    assert set(codes) == {-1}


@pytest.mark.parametrize(("api", "version"), WITH_FIELDS)
async def test_a_truncated_request_closes_the_connection(api, version):
    codec = request_codec(api.key)
    body = codec.encode_request(sample_request(api.key, version), version)
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(lambda call: (15, b""))
    with pytest.raises(DecodeError):
        await Client(backend).send(api.key, version, body[:-1])


@pytest.mark.parametrize("key", [4, 5, 58, 999, -1])
async def test_a_key_that_is_not_served_closes_the_connection(key):
    assert find_api(key, 0) is None
    with pytest.raises(UnknownApiKeyError):
        await Client(FakeBackend()).send(key, 0, b"")


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH])
async def test_the_hot_apis_are_not_dispatched(key):
    assert find_api(key, 4) is None
    with pytest.raises(UnsupportedVersionError):
        await Client(FakeBackend()).send(key, 4, b"")


@pytest.mark.parametrize(("key", "version"), [(3, 14), (3, -1), (19, 1), (75, 1), (11, 10)])
async def test_a_version_that_is_not_served_closes_the_connection(key, version):
    assert find_api(key, version) is None
    with pytest.raises(UnsupportedVersionError):
        await Client(FakeBackend()).send(key, version, bytes(64))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnreachableError("gone"), ErrorCode.NOT_CONTROLLER),
        (NotControllerError("standby"), ErrorCode.NOT_CONTROLLER),
        (TimeoutError(), ErrorCode.REQUEST_TIMED_OUT),
        (KeyError("bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_errors_of_other_services_become_codes(error, code):
    backend = FakeBackend()
    backend.controller.raises = error
    response = await Client(backend).call(sample_request(ApiKey.CREATE_TOPICS, 7), 7)
    assert [topic.error_code for topic in response.topics] == [code]


async def test_a_response_that_cannot_be_encoded_is_an_error_too(monkeypatch):
    backend = FakeBackend(image_of(cluster_id=b"not a string"))
    request = MetadataRequest(topics=[MetadataRequestMetadataRequestTopic(name="access_log")])
    response = await Client(backend).call(request, 9)
    assert [topic.error_code for topic in response.topics] == [-1]


async def test_unforeseen_errors_are_logged_with_their_cause(broken):
    lines = []

    class Log:
        def warning(self, event, **values):
            lines.append((event, values))

    broken.log = Log()
    await Client(broken).call(HeartbeatRequest("g", 1, "m"), 3)
    [(event, values)] = lines
    assert event == "request_failed"
    assert values["api_key"] == ApiKey.HEARTBEAT
    assert isinstance(values["exc_info"], ZeroDivisionError)


async def test_failures_that_a_client_repeats_do_not_fill_the_log():
    backend = FakeBackend()
    backend.controller.raises = TimeoutError("t" * 5_000)
    lines = []

    class Log:
        def warning(self, event, **values):
            lines.append((event, values))

    backend.log = Log()
    client = Client(backend)
    for version in range(2, 8):
        for _ in range(3):
            await client.call(sample_request(ApiKey.CREATE_TOPICS, version), version)
    for n in range(3 * LINES_PER_WINDOW):
        backend.controller.raises = TimeoutError(f"{n:02}" + "t" * 5_000)
        await client.call(sample_request(ApiKey.CREATE_TOPICS, 7), 7)
    assert [event for event, _ in lines] == ["request_failed"] * LINES_PER_WINDOW
    assert [values["api_version"] for _, values in lines] == [2, 3, 4, 5, 6, 7, 7, 7, 7, 7]
    assert all(len(values["error"]) == VALUE_CHARS_MAX for _, values in lines)
    # A bug is rarer and must not be hidden by expected errors.
    backend.controller.raises = KeyError("bug")
    await client.call(sample_request(ApiKey.CREATE_TOPICS, 7), 7)
    assert isinstance(lines[-1][1]["exc_info"], KeyError)
