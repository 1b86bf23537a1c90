"""Records at a fixed rate: none is left out when the producer was held up, and each has its own time."""

from __future__ import annotations

from tests.bench.paced_producer import due, produce


def test_what_is_due() -> None:
    assert [due(elapsed, 10, 2.0) for elapsed in (0.0, 0.09, 0.1, 1.0, 5.0)] == [0, 0, 1, 10, 20]


def test_a_producer_that_was_held_up_catches_up_with_the_times_that_were_due() -> None:
    now = 1000.0
    sent: list[tuple[int, int, float]] = []

    def pause() -> None:
        nonlocal now
        now += 0.7 if now < 1000.5 else 0.1

    count = produce(
        lambda number, time_ms: sent.append((number, time_ms, now)),
        rate=10,
        seconds=2.0,
        clock=lambda: now,
        pause=pause,
    )
    assert count == 20
    assert [number for number, _, _ in sent] == list(range(20))
    assert [time_ms for _, time_ms, _ in sent] == [1_000_000 + 100 * n for n in range(20)]
    late = [moment - time_ms / 1000 for _, time_ms, moment in sent]
    assert 0.6 < max(late) <= 0.7001
    assert min(late) > -1e-6
