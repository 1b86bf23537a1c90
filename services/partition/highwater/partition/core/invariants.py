"""What must be true of every replica after every event; cheap enough to check each time.

The numbers are those of docs/invariants.md: R5 offsets, R6 roles and epochs, R7 epoch cache, R12 ISR,
R18 log starts. Rules about several replicas (R1 to R4, R8 to R10, R16, R17) are checked by the simulation's observer
(`tests/sim/observer.py`).
"""

from highwater.partition.core.replica import NO_NODE, Replica
from highwater.partition.core.transitions import Role


class InvariantViolationError(AssertionError):
    """A replica is in a state that must not exist."""


def check(replica: Replica) -> None:
    """Raises InvariantViolationError, with the name of the invariant first."""
    start, high, end = (
        replica.log_start_offset,
        replica.high_watermark,
        replica.log_end_offset,
    )
    if not 0 <= start <= high <= end:
        raise InvariantViolationError(f"R5: log start {start}, HW {high}, LEO {end}")
    if replica.kept_log_start > start:
        raise InvariantViolationError(f"R18: {replica.kept_log_start} is kept, log start {start}")
    if replica.counted_end_offset > end:
        raise InvariantViolationError(f"R5: {replica.counted_end_offset} counts, LEO {end}")
    if replica.role is Role.LEADER:
        _check_leader(replica)
    elif replica.progress or replica.followers:
        raise InvariantViolationError(f"R6: a {replica.role.value} keeps track of followers")
    elif replica.role is Role.FOLLOWER and replica.leader == replica.node:
        raise InvariantViolationError("R6: follows itself")


def _check_leader(replica: Replica) -> None:
    isr = replica.isr
    if replica.leader != replica.node or replica.leader == NO_NODE:
        raise InvariantViolationError(f"R6: leads although {replica.leader} is the leader")
    if replica.node not in isr.committed:
        raise InvariantViolationError(f"R12: leads outside the ISR {isr.committed}")
    if not isr.maximal.issuperset(isr.committed):
        raise InvariantViolationError(f"R12: maximal ISR {set(isr.maximal)} < {isr.committed}")
    if replica.truncating:
        raise InvariantViolationError("R7: a leader truncates")
    for follower in replica.progress:
        if follower.in_maximal_isr != (follower.node in isr.maximal):
            raise InvariantViolationError(f"R12: node {follower.node} is marked wrongly")
        if follower.log_end_offset > replica.log_end_offset:
            raise InvariantViolationError(f"R5: node {follower.node} is ahead of its leader")


def check_epochs(replica: Replica) -> None:
    """R7: epochs and their starts ascend and lie within the log. Costs a pass over them."""
    last_epoch, last_start = -1, -1
    for epoch, start in replica.epochs.entries():
        if epoch <= last_epoch or start <= last_start or start > replica.log_end_offset:
            raise InvariantViolationError(
                f"R7: epoch {epoch} at {start} after {last_epoch} at {last_start}, "
                f"LEO {replica.log_end_offset}"
            )
        last_epoch, last_start = epoch, start
