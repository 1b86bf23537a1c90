"""The generated requests: every version of every API that is served has one, and somebody filled each field."""

from __future__ import annotations

import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.registry import request_codec
from tests.cluster.border.by_hand import BY_HAND
from tests.cluster.border.names import nobodys
from tests.cluster.border.requests import Filling, Form, RequestBuilder, Served, all_served

NAMES = nobodys(7)
NAMELESS = {
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
}
"""APIs whose requests name nothing that an instance has: what they list must be the own, all the same."""


def encoded(served: Served, form: Form) -> bytes:
    filling = Filling(names=NAMES, form=form, version=served.version, node=1)
    request = RequestBuilder(BY_HAND).build(served, filling)
    return request_codec(served.api_key).encode_request(request, served.version)


@pytest.mark.parametrize("served", all_served(), ids=str)
def test_each_version_has_requests(served: Served) -> None:
    """Each can be encoded, and holds names, unless the API is one that has none."""
    bodies = {form: encoded(served, form) for form in Form}
    says_names = b"of-nobody-00007" in bodies[Form.NAMED] or NAMES.topic_id in bodies[Form.NAMED]
    says_names |= NAMES.producer_id.to_bytes(8, "big") in bodies[Form.NAMED]
    assert says_names is (served.api_key not in NAMELESS)


def test_what_is_filled_by_hand_is_there() -> None:
    """No entry of the table is about a field that no request has."""
    builder = RequestBuilder(BY_HAND)
    for served in all_served():
        for form in Form:
            builder.build(served, Filling(names=NAMES, form=form, version=served.version, node=1))
    assert BY_HAND.keys() == builder.used
