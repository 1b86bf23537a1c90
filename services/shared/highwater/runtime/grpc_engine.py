"""Chooses between gRPC's two I/O engines.

Since gRPC 1.7x, a thread pool (EventEngine) polls the sockets and passes each event to the
completion queue's thread, which wakes the event loop: seven thread switches for a message and its
answer. With the former engine the completion queue's thread polls the sockets: four switches, and
half of the processor time on each side (decision 38). gRPC reads the choice when it is loaded, so
this module must be called before and does not import gRPC.
"""

import os
import sys
from typing import Final

VARIABLE: Final = "GRPC_EXPERIMENTS"
FORK_VARIABLE: Final = "GRPC_ENABLE_FORK_SUPPORT"
POLLING_QUEUES: Final = "-event_engine_client,-event_engine_listener"


def poll_in_completion_queues() -> bool:
    """Chooses the engine for this process and its children.

    Returns False if gRPC is loaded already, or if the operator has set the variable. Also switches
    gRPC's fork handlers off: a process forks here only to run another program, and the handlers may
    hang in the child. The loop would then hang, too, as libuv waits for the program to begin, and
    the child would keep the locks of the log directories.
    """
    os.environ.setdefault(FORK_VARIABLE, "false")
    if VARIABLE in os.environ or "grpc" in sys.modules:
        return False
    os.environ[VARIABLE] = POLLING_QUEUES
    return True
