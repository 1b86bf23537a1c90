"""Which of gRPC's two I/O engines carries the hop.

Since gRPC 1.7x, sockets are polled by a thread pool of its own (EventEngine), which hands each
event to the completion queue's thread, which wakes the event loop: seven thread switches for a
message and its answer. The former engine lets the completion queue's thread poll the sockets: four
switches, and half of the processor time on each side (decision 38). gRPC reads the
choice when it is loaded, so this module must come before it and imports nothing of it.
"""

import os
import sys
from typing import Final

VARIABLE: Final = "GRPC_EXPERIMENTS"
FORK_VARIABLE: Final = "GRPC_ENABLE_FORK_SUPPORT"
POLLING_QUEUES: Final = "-event_engine_client,-event_engine_listener"


def poll_in_completion_queues() -> bool:
    """Chooses the engine for this process and its children.

    False if it is too late, or if the operator has set the variable and so has chosen. Also switches
    gRPC's handlers for forks off. Nobody forks here but to run another program, and in that child
    they may hang: libuv waits for the program to begin, so the loop stands still, and the child keeps
    the locks of the log directories.
    """
    os.environ.setdefault(FORK_VARIABLE, "false")
    if VARIABLE in os.environ or "grpc" in sys.modules:
        return False
    os.environ[VARIABLE] = POLLING_QUEUES
    return True
