"""`python -m tests.compat.kafka_python`: kafka-python's own integration tests, in each mode.

Ends with 0 if all tests pass but those of the exclusions. Logs are kept in .cache/kafka-python/runs.
"""

from __future__ import annotations

import argparse
import shutil
import sys

from tests.compat.kafka_python.modes import MODES, run_mode
from tests.compat.kafka_python.suite import REPOSITORY


def main() -> int:
    """Runs the modes one after the other; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat.kafka_python", description=__doc__
    )
    parser.add_argument("--mode", action="append", choices=MODES, help="default: all of them")
    parser.add_argument(
        "tests", nargs="*", help="FILE::TEST of the suite's test/integration; default: all"
    )
    options = parser.parse_args()
    good = True
    for mode in options.mode or MODES:
        directory = REPOSITORY / ".cache" / "kafka-python" / "runs" / mode
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        print(f"--- kafka-python's integration tests, {mode}", flush=True)
        run = run_mode(mode, directory, options.tests)
        print(run.report(), flush=True)
        good = good and run.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
