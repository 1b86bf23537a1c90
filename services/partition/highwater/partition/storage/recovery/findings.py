"""What recovery may find in a log, what it does about it, and whether the node reports a loss.

    found                                              done                        lost?
    -------------------------------------------------  --------------------------  --------------
    each segment ends where the next one begins        nothing                     no
    offsets missing between segments
      before the log start offset                      segments before it go       no: deleted
      in a log whose marker allows it (Kafka's)        nothing                     no: compacted
      anywhere else: a segment is missing or empty,    the log ends at the hole    yes
      or ends early at a batch boundary
    offsets missing inside a segment
      in a log with any marker                         nothing                     no: compacted
      in a log without one                             the log ends at the hole    yes
    a closed segment ends inside a batch               cut behind the last whole   yes
                                                       batch, the log ends there
    a closed segment has bytes that are no batch, or
    offsets that do not rise up to the next segment
      before the recovery point                        nothing: readers and the    they report it
                                                       scrubber find it
      behind it                                        cut, the log ends there     yes
    the next segment begins before this one ends,
    behind the recovery point                          the next segment goes       yes
    the first segment begins behind the first epoch
      while a deletion of older ones was under way     nothing                     no: deleted
      otherwise                                        the log begins anew, empty  yes
    the last segment ends with the beginning of a
    batch, as a write that was cut short leaves it
      after a crash                                    cut                         no
      after an orderly stop                            cut                         yes
    it ends with anything else                         cut                         yes
    it is shorter than its index says                  nothing is left to cut      yes
    the log ends before the high watermark that was    nothing is left to cut      yes
    checkpointed, or after an orderly stop before
    the recovery point

"Lost" means that more is gone than a killed process leaves unwritten. Before anything is cut, the
node records that its directories no longer prove the records of earlier incarnations
(`NodeLineage.record_loss`), so that the controller removes its replicas from the ISRs and does not
elect them. After a power cut the directories prove nothing anyway; the record changes nothing.

Records that are dropped although no power cut explains it (after an orderly stop, on a kernel that
kept running, or before the recovery point) are set aside, not deleted: they may be the only copy.

Not noticed: a last segment that is missing or ends early at a batch boundary, if its index does not
show it and the last checkpointed high watermark was not beyond it; a missing first segment, if the
leader epoch checkpoint is gone too.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Findings:
    """Totals of one recovery of one log."""

    recovered_segments: int = 0
    """How many segments were checked batch by batch."""
    truncated_bytes: int = 0
    """Bytes cut off or set aside, in all segments."""
    lost: bool = False
    """Whether anything with "yes" in the last column was found."""
