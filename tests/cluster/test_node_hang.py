"""A partition node hangs: its connections stay open, but it sends nothing."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from tests.cluster.runner import HOST, Up
from tests.conformance.protocol.requests import PRODUCE_VERSION, batch, produce_request
from tests.conformance.topics import make_topic
from tests.support.wire import RawConnection, only

PARTITIONS = 3
TIMEOUT_MS = 1_500


@pytest.mark.parametrize(
    "up", ["nodes3", "grpcio3", pytest.param("combined3", marks=pytest.mark.full)], indirect=True
)
def test_produces_are_answered_by_their_deadline_while_a_node_hangs(up: Up):
    topic = make_topic(up.bootstrap, "hang", partitions=PARTITIONS)
    with RawConnection(HOST, up.port + 1) as connection:
        assert set(_produce(connection, topic).values()) == {0}
        hanging = up.pids()[up.node_process(2)]
        os.kill(hanging, signal.SIGSTOP)
        try:
            started = time.monotonic()
            codes = _produce(connection, topic)
            elapsed_s = time.monotonic() - started
        finally:
            os.kill(hanging, signal.SIGCONT)
        assert sorted(codes.values()) == [0, 0, ErrorCode.REQUEST_TIMED_OUT]
        assert TIMEOUT_MS / 1000 <= elapsed_s < TIMEOUT_MS / 1000 + 1
        deadline = time.monotonic() + 20
        while set(_produce(connection, topic).values()) != {0}:
            assert time.monotonic() < deadline, "the node is back and serves again"
            time.sleep(0.1)


def _produce(connection: RawConnection, topic: str) -> dict[int, int]:
    """Produces to all partitions in one request; returns error codes by partition."""
    request: Any = produce_request(topic, {n: batch([b"x"]) for n in range(PARTITIONS)}, acks=1)
    request.timeout_ms = TIMEOUT_MS
    reply = connection.ask(request, PRODUCE_VERSION)
    return {part.index: part.error_code for part in only(reply.responses).partition_responses}
