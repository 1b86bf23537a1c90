"""One request through one handler, against a shard in memory."""

from __future__ import annotations

from typing import Any

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.registry import request_codec
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.transactions.core.image import TopicPartition
from tests.unit.partition.transactions.core.dialogue import Dialogue

KNOWN = {TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("__consumer_offsets", 3)}
"""The partitions that exist."""


def exists(instance: InstanceId, partition: TopicPartition) -> bool:
    return instance == DEFAULT_INSTANCE and partition in KNOWN


class Exchange:
    """A shard, `d`, and the encoding of one API."""

    def __init__(self, api_key: int, d: Dialogue | None = None) -> None:
        self.d = d or Dialogue()
        self.codec = request_codec(api_key)
        self.api_key = api_key

    def call(
        self, message: Any, version: int, instance: InstanceId = DEFAULT_INSTANCE
    ) -> CoordinatorCall:
        return CoordinatorCall(
            api_key=self.api_key,
            api_version=version,
            instance=instance,
            client_id="app",
            client_host="10.0.0.1",
            body=self.codec.encode_request(message, version),
            partition=0,
            deadline_ms=60_000,
            reply=lambda _error, _body: None,
        )

    def ask(self, handle: Any, message: Any, version: int, **options: Any) -> Any:
        """The response of a handler about one key."""
        body = handle(self.d.shard, self.call(message, version), self.d.now, **options)
        self.d.settle()
        return self.codec.decode_response(body, 0, version)

    def ask_many(self, handle: Any, message: Any, version: int, *args: Any, **options: Any) -> Any:
        """The response of a handler that looks for the shard of each key."""
        body = handle(lambda _key: self.d.shard, self.call(message, version), *args, **options)
        self.d.settle()
        return self.codec.decode_response(body, 0, version)
