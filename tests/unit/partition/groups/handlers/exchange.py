"""One request through one handler, in every version, against a shard in memory."""

from __future__ import annotations

from typing import Any

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.registry import ApiCodec, request_codec
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.partition.groups.dialogue import Dialogue


class Exchange:
    """A shard, `d`, and the encoding of one API."""

    def __init__(self, api_key: int, d: Dialogue | None = None) -> None:
        self.d = d or Dialogue()
        self.codec: ApiCodec = request_codec(api_key)

    def call(self, message: Any, version: int, host: str = "10.0.0.1") -> CoordinatorCall:
        return CoordinatorCall(
            api_key=self.codec.api_key,
            api_version=version,
            instance=DEFAULT_INSTANCE,
            client_id="app",
            client_host=host,
            body=self.codec.encode_request(message, version),
            partition=0,
            deadline_ms=1_000,
            reply=lambda error, body: None,
        )

    def decode(self, body: bytes, version: int) -> Any:
        return self.codec.decode_response(body, 0, version)

    def shard_of(self, group_id: str) -> Any:
        return self.d.shard
