"""`python -m tests.bench.paced_producer`: records at a fixed rate, each with the time at which it was due.

The rate is an open loop: a producer that was held up sends what is due at once, with the times it should
have had, so that a stall is not hidden. Prints `{"sent": N, "failed": N}` at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, Message, Producer

TICK_S = 0.002
LINGER_MS = 5
RECORD_BYTES = 200
FLUSH_TIMEOUT_S = 60.0
QUEUE_MAX = 1_000_000


def due(elapsed_s: float, rate: float, seconds: float) -> int:
    """How many records should have been sent so far."""
    return int(min(elapsed_s, seconds) * rate)


def produce(
    send: Callable[[int, int], None],
    *,
    rate: float,
    seconds: float,
    clock: Callable[[], float],
    pause: Callable[[], None],
) -> int:
    """Calls `send` with the number and the time (ms since 1970) of each record; returns how many.

    `clock` is in seconds since 1970; `pause` waits for the next tick.
    """
    started, sent = clock(), 0
    while sent < int(seconds * rate):
        for number in range(sent, due(clock() - started, rate, seconds)):
            send(number, int((started + number / rate) * 1000))
            sent = number + 1
        pause()
    return sent


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if every record was acknowledged, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.paced_producer")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "acks": "all",
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": QUEUE_MAX,
        }
    )
    failed = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        nonlocal failed
        failed += error is not None

    def send(number: int, time_ms: int) -> None:
        producer.produce(
            options.topic, b"%d" % number + b"." * RECORD_BYTES, partition=number % options.partitions,
            timestamp=time_ms, on_delivery=delivered,
        )  # fmt: skip

    def pause() -> None:
        producer.poll(0)
        time.sleep(TICK_S)

    sent = produce(send, rate=options.rate, seconds=options.seconds, clock=time.time, pause=pause)
    failed += producer.flush(FLUSH_TIMEOUT_S)
    print(json.dumps({"sent": sent, "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
