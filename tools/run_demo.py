"""`make run`: starts a broker, sends a web server's log through it, and has Spark report, load and compare.

    .venv/bin/python tools/run_demo.py [--once] [--port 9092] [--data-dir .highwater]

Exit code 0 if every check held, 1 if something failed, 2 if something must be changed first (a
busy port, a missing file), 130 or 143 when it was interrupted or terminated before the end.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

from rich.console import Console

REPOSITORY = Path(__file__).resolve().parents[1]


def main() -> int:
    # For a script, Python's path has only the script's directory.
    sys.path.insert(0, str(REPOSITORY))
    from tools.demo.errors import DemoError
    from tools.demo.options import parse_options
    from tools.demo.screen import Screen
    from tools.demo.story import play

    options = parse_options()
    received: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        """Raises, so that all `finally` blocks run and the broker is stopped."""
        received.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    try:
        return play(options, Screen(Console(highlight=False)))
    except DemoError as error:
        print(f"highwater demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except Exception:
        # The Kafka client's C code can turn the signal's exception into another one.
        if not received:
            raise
        print("Interrupted", file=sys.stderr)
        return 128 + received[0]


if __name__ == "__main__":
    sys.exit(main())
