"""Every fault of the catalogue that real processes are put through, in the order of its ids.

F32 to F34 are in the fuzz and quota suites.
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
    BrieflyStalledDisk,
    FailingSync,
    FullDisk,
    LaggingFollower,
    ReadOnlyDisk,
    SlowSync,
    StalledDisk,
    UnreadableDisk,
)
from tests.robustness.faults.election_faults import (
    AskedElection,
    CleanElection,
    TooFewInSync,
    UncleanElection,
)
from tests.robustness.faults.exhaustion_faults import FewConnections, FewFiles, FewThreads
from tests.robustness.faults.fault import Fault
from tests.robustness.faults.group_faults import KillCoordinator
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
    LeadersWithoutSession,
    LeaderWithoutController,
    LeaderWithoutFollowers,
    MuteLeader,
    PacketDisorder,
    PacketLoss,
)
from tests.robustness.faults.power_faults import PowerCutOfAll, PowerCutOfLast, PowerCutOfOne
from tests.robustness.faults.process_faults import (
    ChaseLeader,
    DuplicateNode,
    KillAll,
    KillController,
    KillControllerAndLeader,
    KillEverything,
    KillLeader,
    OutOfMemory,
    PauseFollower,
    PauseLeader,
    TerminateLeader,
)
from tests.robustness.faults.proxy_faults import BrokenConnections
from tests.robustness.faults.restart_faults import RollingRestart


def every_fault() -> list[Fault]:
    """New objects, one for each fault and variant."""
    return [*_of_processes_and_networks(), *_of_disks(), *_of_all_else()]


def _of_processes_and_networks() -> list[Fault]:
    return [
        KillLeader(),
        KillControllerAndLeader(),
        KillEtcdLeaderAndNode(),
        ChaseLeader(),
        TerminateLeader(),
        PauseLeader(),
        PauseFollower(),
        KillAll(),
        KillEverything(),
        PowerCutOfOne(),
        PowerCutOfLast(),
        PowerCutOfAll(),
        CutOffLeader(),
        MuteLeader(),
        LeaderWithoutFollowers(),
        TooFewInSync(),
        LeaderWithoutController(),
        LeadersWithoutSession(),
        KillEtcdLeader(),
        PauseEtcdLeader(),
        KillController(),
        PauseEtcd(),
        CompactWhileAway(),
        OldSnapshot(),
        OldSnapshotNewControllers(),
    ]


def _of_disks() -> list[Fault]:
    return [
        SlowSync(),
        SlowSync(who="leader"),
        LaggingFollower(),
        StalledDisk(),
        BrieflyStalledDisk(),
        FailingSync(),
        FullDisk(),
        ReadOnlyDisk(),
        UnreadableDisk(),
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
        DamagedEpochs(how="too high"),
        DamagedEpochs(how="too high", who="leader"),
        DamagedHighWatermark(how="zero"),
        DamagedHighWatermark(how="too high"),
        DamagedHighWatermark(how="too high", who="leader"),
        DamagedHighWatermark(how="missing", who="leader"),
    ]


def _of_all_else() -> list[Fault]:
    return [
        ClockJump(),
        DuplicateNode(),
        EmptyDisk(),
        EmptyDisk(who="leader"),
        OthersDisk(),
        CleanElection(),
        UncleanElection(),
        AskedElection(),
        RollingRestart(rounds=2),
        FewFiles(),
        FewConnections(),
        FewThreads(),
        KillCoordinator(),
        PacketLoss(),
        PacketDisorder(),
        BrokenConnections(who="clients"),
        BrokenConnections(who="nodes"),
        OutOfMemory(),
    ]


def name_of(fault: Fault) -> str:
    """The fault's id, and its variant."""
    variant = [str(getattr(fault, field)) for field in ("how", "who") if hasattr(fault, field)]
    return "-".join([fault.id, *(word.replace(" ", "-") for word in variant)])
