from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from highwater.spark.stop_signals import SIGNALS, StopSignals


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_asks_and_the_next_one_ends(number: signal.Signals):
    stop = StopSignals()
    assert not stop.asked()
    os.kill(os.getpid(), number)
    assert stop.asked()
    assert {signal.getsignal(each) for each in SIGNALS} == {signal.SIG_DFL}
