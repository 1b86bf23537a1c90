"""The error tree of everything that is not the codec: who is at fault, and what a caller can do.

Every class answers three questions, so that an edge can translate errors by one table instead of
by reading messages: whose fault it is (`fault`), whether the same call may succeed later without
being changed (`retriable`), and whether the caller has been superseded by somebody newer and must
step back before it does anything else (`fenced`). The codec has its own tree in
`highwater.kafka.errors`.
"""

import enum
from typing import ClassVar, Final

EXIT_OK: Final = 0
"""Process exit: stopped cleanly, or the command did what it was asked to."""

EXIT_FAILED: Final = 1
"""Process exit: a service failed, or could not be stopped within its deadline."""

EXIT_USAGE: Final = 2
"""Process exit: the operator must change something (`UsageError`)."""


class Fault(enum.Enum):
    """Who has to change something for the error to go away."""

    OPERATOR = "operator"
    """The person who started or configured the process."""
    CALLER = "caller"
    """Whoever sent the request; its bytes, epoch or offset are not acceptable."""
    WORLD = "world"
    """Nobody in particular: elections, full disks, lost connections, load."""
    BUG = "bug"
    """This program."""


class HighwaterError(Exception):
    """The root; raise one of the leaves."""

    fault: ClassVar[Fault] = Fault.BUG
    retriable: ClassVar[bool] = False
    fenced: ClassVar[bool] = False
    reason: ClassVar[str] = "INTERNAL"
    """Constant, upper-case; travels as ErrorInfo.reason and labels metrics."""


class UsageError(HighwaterError):
    """The operator's mistake, told in one line; the process ends with exit code 2."""

    fault = Fault.OPERATOR
    reason = "USAGE"


class ConfigError(UsageError):
    """A setting is missing, unknown, of the wrong type or at odds with another one."""

    reason = "CONFIG"


class PortInUseError(UsageError):
    """Another process listens on the address already."""

    reason = "PORT_IN_USE"

    def __init__(self, address: str) -> None:
        """Keep the address, host:port."""
        super().__init__(f"address {address} is already in use by another process")
        self.address = address


class BindError(UsageError):
    """The address cannot be listened on: no such host, or no permission."""

    reason = "BIND"

    def __init__(self, address: str, cause: str) -> None:
        """Keep the address, host:port, and what the system said."""
        super().__init__(f"cannot listen on {address}: {cause}")
        self.address = address


class UnwritableDirectoryError(UsageError):
    """A directory given in the settings cannot be created or written."""

    reason = "UNWRITABLE_DIRECTORY"

    def __init__(self, directory: str, cause: str) -> None:
        """Keep the directory and what the system said."""
        super().__init__(f"cannot write to directory {directory}: {cause}")
        self.directory = directory


class InvalidRequestError(HighwaterError):
    """The request contradicts itself or its API; sending it again cannot help."""

    fault = Fault.CALLER
    reason = "INVALID_REQUEST"


class CorruptBatchError(InvalidRequestError):
    """A record batch that a client sent fails its CRC or its structure."""

    reason = "CORRUPT_BATCH"


class OffsetOutOfRangeError(InvalidRequestError):
    """The offset is below the log start offset or above the readable end."""

    reason = "OFFSET_OUT_OF_RANGE"


class FencedError(HighwaterError):
    """The caller acts on an epoch that is over; it must take the newer state first."""

    fault = Fault.CALLER
    fenced = True
    reason = "FENCED"


class FencedLeaderEpochError(FencedError):
    """The request's leader epoch is older than the replica's (KIP-320)."""

    reason = "FENCED_LEADER_EPOCH"


class StaleNodeEpochError(FencedError):
    """The node was registered again since; this incarnation of it is over (KIP-631)."""

    reason = "STALE_NODE_EPOCH"


class StaleControllerEpochError(FencedError):
    """A newer controller is active; the command of the old one is refused."""

    reason = "STALE_CONTROLLER_EPOCH"


class RevisionConflictError(HighwaterError):
    """A compare-and-set lost: somebody else changed the record; read it again and decide anew."""

    fault = Fault.WORLD
    reason = "REVISION_CONFLICT"


class RetriableError(HighwaterError):
    """The same request may succeed later or elsewhere."""

    fault = Fault.WORLD
    retriable = True
    reason = "RETRIABLE"


class NotLeaderError(RetriableError):
    """This node does not lead the partition; refresh the metadata first."""

    reason = "NOT_LEADER"


class UnknownLeaderEpochError(RetriableError):
    """The request's leader epoch is newer than any that this replica has heard of."""

    reason = "UNKNOWN_LEADER_EPOCH"


class UnknownPartitionError(RetriableError):
    """This node does not host the partition, or not yet."""

    reason = "UNKNOWN_PARTITION"


class NotEnoughReplicasError(RetriableError):
    """The ISR is smaller than min.insync.replicas; nothing was appended."""

    reason = "NOT_ENOUGH_REPLICAS"


class NotControllerError(RetriableError):
    """This controller is a standby, or lost its election meanwhile."""

    reason = "NOT_CONTROLLER"


class NotReadyError(RetriableError):
    """The service is starting, or drains before it stops."""

    reason = "NOT_READY"


class UnreachableError(RetriableError):
    """A peer does not answer within the deadline."""

    reason = "UNREACHABLE"


class LimitExceededError(RetriableError):
    """A queue, a buffer or a budget of ours is full; back off."""

    reason = "LIMIT_EXCEEDED"


class StorageError(HighwaterError):
    """A log directory cannot be read or written; its replicas go offline, others go on."""

    fault = Fault.WORLD
    reason = "STORAGE"


class CorruptLogError(StorageError):
    """Bytes on disk fail their checks outside the part that recovery may cut off."""

    reason = "CORRUPT_LOG"
