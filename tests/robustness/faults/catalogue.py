"""Every fault of the catalogue that real processes are put through, in the order of its ids.

F32 to F34 are the business of the fuzz and quota suites.
"""

from __future__ import annotations

from tests.robustness.faults.clock_faults import ClockJump
from tests.robustness.faults.damage_faults import (
    BitRot,
    DamagedEpochs,
    DamagedHighWatermark,
    DamagedIndexes,
    EmptyDisk,
    GarbageTail,
    MissingSegment,
    OthersDisk,
    TornTail,
)
from tests.robustness.faults.disk_faults import (
    FailingSync,
    FullDisk,
    ReadOnlyDisk,
    SlowSync,
    StalledDisk,
)
from tests.robustness.faults.election_faults import CleanElection, TooFewInSync, UncleanElection
from tests.robustness.faults.fault import Fault
from tests.robustness.faults.metadata_faults import (
    CompactWhileAway,
    KillEtcdLeader,
    KillEtcdLeaderAndNode,
    OldSnapshot,
    OldSnapshotNewControllers,
    PauseEtcd,
    PauseEtcdLeader,
)
from tests.robustness.faults.network_faults import (
    CutOffLeader,
    LeaderWithoutController,
    LeaderWithoutFollowers,
    MuteLeader,
    PacketLoss,
)
from tests.robustness.faults.power_faults import PowerCutOfAll, PowerCutOfOne
from tests.robustness.faults.process_faults import (
    ChaseLeader,
    DuplicateNode,
    FewFiles,
    KillAll,
    KillController,
    KillControllerAndLeader,
    KillCoordinator,
    KillLeader,
    OutOfMemory,
    PauseFollower,
    PauseLeader,
    RollingRestart,
    TerminateLeader,
)


def every_fault() -> list[Fault]:
    """New objects, one for each fault and variant."""
    return [
        KillLeader(),
        KillControllerAndLeader(),
        KillEtcdLeaderAndNode(),
        ChaseLeader(),
        TerminateLeader(),
        PauseLeader(),
        PauseFollower(),
        KillAll(),
        PowerCutOfOne(),
        PowerCutOfAll(),
        CutOffLeader(),
        MuteLeader(),
        LeaderWithoutFollowers(),
        TooFewInSync(),
        LeaderWithoutController(),
        KillEtcdLeader(),
        PauseEtcdLeader(),
        KillController(),
        PauseEtcd(),
        CompactWhileAway(),
        OldSnapshot(),
        OldSnapshotNewControllers(),
        SlowSync(),
        StalledDisk(),
        FailingSync(),
        FullDisk(),
        ReadOnlyDisk(),
        TornTail(),
        TornTail(who="leader"),
        GarbageTail(),
        GarbageTail(who="leader"),
        MissingSegment(),
        BitRot(),
        BitRot(who="leader"),
        BitRot(how="length"),
        BitRot(how="length", who="leader"),
        BitRot(how="magic", who="leader"),
        DamagedIndexes(),
        DamagedIndexes(who="leader"),
        DamagedEpochs(how="missing"),
        DamagedEpochs(how="empty"),
        DamagedEpochs(how="garbage", who="leader"),
        DamagedHighWatermark(how="zero"),
        DamagedHighWatermark(how="too high"),
        DamagedHighWatermark(how="missing", who="leader"),
        ClockJump(),
        DuplicateNode(),
        EmptyDisk(),
        EmptyDisk(who="leader"),
        OthersDisk(),
        CleanElection(),
        UncleanElection(),
        RollingRestart(),
        FewFiles(),
        KillCoordinator(),
        PacketLoss(),
        OutOfMemory(),
    ]


def name_of(fault: Fault) -> str:
    """The fault's id, and its variant."""
    variant = [str(getattr(fault, field)) for field in ("how", "who") if hasattr(fault, field)]
    return "-".join([fault.id, *(word.replace(" ", "-") for word in variant)])
