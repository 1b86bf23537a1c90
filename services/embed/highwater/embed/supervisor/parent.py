"""Ends a child process together with its supervisor, even if the supervisor is killed."""

import ctypes
import os
import signal
import sys
from typing import Final

from highwater.model.errors import EXIT_FAILED

_PR_SET_PDEATHSIG: Final = 1


def die_with(parent_pid: int) -> None:
    """Has the kernel kill this process when its parent ends (prctl(2), PR_SET_PDEATHSIG).

    Called by the child itself: the setting would not survive a change of credentials, and setting
    it between fork and exec is not safe in a process with threads. SIGKILL rather than SIGTERM,
    because a gateway that drains would still hold the ports when the cluster is started again.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        sys.exit(EXIT_FAILED)  # The parent ended before this call.
