"""Throttle times in the answers of all APIs that have room for them."""

import pytest

from highwater.gateway.handling.apis import APIS
from highwater.gateway.quota.core.request_quota import LimitedRequest
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import heartbeat
from highwater.kafka.registry import request_codec
from tests.unit.gateway.handlers.fakes import Client, FakeBackend
from tests.unit.gateway.handlers.images import group_topic, image_of
from tests.unit.gateway.handlers.samples import sample_request
from tests.unit.gateway.quota.fake_quota import FakeQuota

WITHOUT = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.DESCRIBE_QUORUM,
}


class LimitedClient(Client):
    """Its requests have a quota."""

    def __init__(self, backend, ms):
        super().__init__(backend)
        self.fake = FakeQuota(ms)

    def context(self, api_key, version):
        self.quota = LimitedRequest(self.fake, lambda: 0)
        return super().context(api_key, version)

    async def answer(self, key, version):
        codec = request_codec(key)
        request = sample_request(key, version)
        body = await self.send(key, version, codec.encode_request(request, version))
        return codec.decode_response(body, 0, version)


@pytest.mark.parametrize("api", [api for api in APIS.values() if api.module], ids=str)
async def test_every_api_tells_its_client_to_wait(api):
    backend = FakeBackend(image_of(group_topic()))
    backend.coordinate(lambda call: (15, b""))
    client = LimitedClient(backend, 321)
    answer = await client.answer(api.key, api.max_version)
    if api.key in WITHOUT:
        assert not hasattr(answer, "throttle_time_ms")
        assert client.quota.throttle_ms == 0, "and the connection is not muted"
    else:
        assert answer.throttle_time_ms == 321
        assert client.quota.throttle_ms == 321


@pytest.mark.parametrize(("coordinators", "told"), [(0, 321), (500, 500)])
async def test_answers_of_coordinators_get_the_longer_time(coordinators, told):
    backend = FakeBackend(image_of(group_topic()))
    codec = request_codec(ApiKey.HEARTBEAT)
    made = heartbeat.HeartbeatResponse(coordinators, ErrorCode.REBALANCE_IN_PROGRESS)
    backend.coordinate(lambda call: (0, codec.encode_response(made, 4)))
    answer = await LimitedClient(backend, 321).answer(ApiKey.HEARTBEAT, 4)
    assert (answer.throttle_time_ms, answer.error_code) == (told, ErrorCode.REBALANCE_IN_PROGRESS)


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.FIND_COORDINATOR])
async def test_versions_without_the_field_are_muted_all_the_same(key):
    client = LimitedClient(FakeBackend(image_of(group_topic())), 321)
    answer = await client.answer(key, 0)
    assert answer.throttle_time_ms == 0
    assert client.quota.throttle_ms == 321


async def test_a_client_within_its_quota_is_not_told_to_wait():
    client = LimitedClient(FakeBackend(), 0)
    answer = await client.answer(ApiKey.LIST_GROUPS, 4)
    assert answer.throttle_time_ms == 0
    assert client.fake.counted == [False]
