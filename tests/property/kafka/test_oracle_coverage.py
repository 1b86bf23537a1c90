"""Every request and response that is served is compared with a codec of others.

kio is made from Kafka's current schemas, which lack the versions that Kafka 4.0 removed; kafka-python
has those, and lacks some newer APIs. docs/compatibility.md names what only one of them has.
"""

from collections.abc import Iterable

from highwater.gateway.handling.apis import APIS_WITH_OLD_FORMATS
from highwater.kafka.api_keys import ApiKey
from tests.property.kafka import test_oracle_kafka_python, test_oracle_kio
from tests.property.kafka.random_messages import Case

ONLY_KAFKA_PYTHON = {ApiKey.PRODUCE: 3, ApiKey.FETCH: 4, ApiKey.LIST_OFFSETS: 1}
"""The first version that kio has, too."""
ONLY_KIO = {
    (ApiKey.METADATA, "response"),
    (ApiKey.DESCRIBE_GROUPS, "response"),
    (ApiKey.API_VERSIONS, "response"),
    (ApiKey.DESCRIBE_CLUSTER, "response"),
    (ApiKey.UNREGISTER_BROKER, "request"),
    (ApiKey.UNREGISTER_BROKER, "response"),
    (ApiKey.CREATE_DELEGATION_TOKEN, "request"),
    (ApiKey.CREATE_DELEGATION_TOKEN, "response"),
    (ApiKey.RENEW_DELEGATION_TOKEN, "request"),
    (ApiKey.RENEW_DELEGATION_TOKEN, "response"),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, "request"),
    (ApiKey.EXPIRE_DELEGATION_TOKEN, "response"),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, "request"),
    (ApiKey.DESCRIBE_DELEGATION_TOKEN, "response"),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "request"),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, "response"),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "request"),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, "response"),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, "response"),
}
"""In some versions: kafka-python lacks the API, or gives the answer in terms of its own."""


def compared(cases: Iterable[Case]) -> set[tuple[int, str, int]]:
    return {(case.message.api_key or 0, case.message.kind, case.version) for case in cases}


SERVED = {
    (int(api.key), kind, version)
    for api in APIS_WITH_OLD_FORMATS.values()
    for version in range(api.served_from, api.max_version + 1)
    for kind in ("request", "response")
}
KIO = compared(test_oracle_kio.CASES)
KAFKA_PYTHON = compared(test_oracle_kafka_python.CASES)


def test_every_version_served_has_an_oracle() -> None:
    assert set() == SERVED - KIO - KAFKA_PYTHON
    assert len(SERVED) > 400


def test_what_only_kafka_python_has() -> None:
    assert {
        (int(key), kind, version)
        for key, first in ONLY_KAFKA_PYTHON.items()
        for version in range(first)
        for kind in ("request", "response")
    } == SERVED - KIO


def test_what_only_kio_has() -> None:
    assert {(key, kind) for key, kind, _ in SERVED - KAFKA_PYTHON} == {
        (int(key), kind) for key, kind in ONLY_KIO
    }
