"""SIGTERM and SIGINT ask a job to end; a second one ends it at once, as without this."""

import signal
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Whether this process was asked to end. One a process; it takes the signals when it is made."""

    def __init__(self) -> None:
        self._asked = False
        for number in SIGNALS:
            signal.signal(number, self._ask)

    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._asked

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
