"""The child process that cleans one log: `python -m highwater.partition.storage.cleaning.child`.

It reads one job from standard input, reports on standard output (`job`), and ends. It has low
priority and does not outlive the node: the kernel kills it when the thread that started it ends.
"""

import ctypes
import os
import signal
import sys
import traceback
from typing import BinaryIO, Final

from highwater.kafka.errors import RecordsError
from highwater.partition.storage.cleaning.job import (
    BUG,
    IO,
    LINE_BYTES_MAX,
    UNREADABLE,
    CleaningFailed,
    Report,
    decode_job,
    encode_report,
)
from highwater.partition.storage.cleaning.rewrite import LogCleaner
from highwater.partition.storage.errors import StorageError

NICENESS: Final = 10
_PR_SET_PDEATHSIG: Final = 1


def clean_log(job_line: bytes, output: BinaryIO) -> int:
    """Run the job in `job_line` and report to `output`; return the exit code."""

    def tell(report: Report) -> None:
        output.write(encode_report(report))
        output.flush()

    try:
        tell(LogCleaner(decode_job(job_line), tell).run())
    except OSError as error:
        tell(CleaningFailed(kind=IO, error=str(error)))
    except (StorageError, RecordsError) as error:
        tell(CleaningFailed(kind=UNREADABLE, error=str(error)))
    except Exception:  # noqa: BLE001 - the node logs it and goes on without cleaning this log.
        tell(CleaningFailed(kind=BUG, error=traceback.format_exc()))
    else:
        return 0
    return 1


def main() -> int:
    """Run the process."""
    parent = int(sys.argv[1])
    _die_with_parent()
    if os.getppid() != parent:
        return 1  # The parent ended before the kernel was asked to watch it.
    os.nice(NICENESS)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the node ends this process.
    return clean_log(sys.stdin.buffer.readline(LINE_BYTES_MAX), sys.stdout.buffer)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
