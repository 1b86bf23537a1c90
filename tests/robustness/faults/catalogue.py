"""Every fault of the catalogue that real processes are put through, in the order of its ids.

F32 to F34 are in the fuzz and quota suites.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.cluster.replicated import in_form
from tests.robustness.faults.clock_faults import ClockJump
from tests.robustness.faults.consumer_group_faults import CutOffCoordinator, PausedCoordinator
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
    HUNG_S_MAX,
    BrieflyStalledDisk,
    FailingSync,
    FullDisk,
    LaggingFollower,
    NearlyFullDisk,
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
from tests.robustness.faults.fault import SESSION_S, Fault
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
    GIVE_UP_S,
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
from tests.support.replicated.shape import Shape

COMBINED_CLIENTS = {"socket.timeout.ms": int(SESSION_S * 1000)}
"""A client whose gateway hangs notices it by itself, as with any broker; the library waits for 60 s."""
COMBINED_PAUSE_S_MAX = SESSION_S + 2 * GIVE_UP_S
"""When a leader hangs, or hears nothing, that is its clients' gateway: they wait for their own timeout,
from their last request on, or until they look at the metadata again, and then find the next leader."""


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
        NearlyFullDisk(),
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
        PausedCoordinator(),
        CutOffCoordinator(),
        PacketLoss(),
        PacketDisorder(),
        BrokenConnections(who="clients"),
        BrokenConnections(who="nodes"),
        OutOfMemory(),
    ]


def combined_faults() -> list[Fault]:
    """Those in which clients, or nodes, lose a process that is both to them: nodes with gateways."""
    found: list[Fault] = [
        KillLeader(),
        TerminateLeader(),
        PauseLeader(),
        CutOffLeader(),
        MuteLeader(),
        LeaderWithoutFollowers(),
        LeaderWithoutController(),
        LeadersWithoutSession(),
        PacketLoss(),
        PacketDisorder(),
        BrokenConnections(who="clients"),
        BrokenConnections(who="nodes"),
        KillControllerAndLeader(),
        ChaseLeader(rounds=2),
        PauseFollower(),
        KillEverything(),
        TooFewInSync(),
        StalledDisk(),
        BrieflyStalledDisk(),
        FullDisk(),
        DuplicateNode(),
        RollingRestart(),
        FewThreads(),
        KillCoordinator(),
    ]
    for fault in found:
        combine(fault)
    return found


_ENDS = "the node's end is what its gateway's clients notice: F1, F20"
_FILES = (
    "files of a node that is not running: its gateway is not there either, and has none of its own"
)
_LOGS = (
    "how the node appends, syncs and reads; no client loses its gateway, which does not wait for it"
)
_STORE = "between controllers and etcd: nodes and gateways say and hear the same, in one process or in two"

NOT_COMBINED: Mapping[str, str] = {
    "F1-etcd": "F1-controller, with an election that waits for etcd instead of for the next controller",
    "F6-nodes": "part of F6",
    "F7": _FILES,
    "F7-last": _FILES,
    "F8": _FILES,
    "F13": _STORE,
    "F13-pause": _STORE,
    "F13-controller": "part of F1-controller",
    "F14": _STORE,
    "F15": _STORE,
    "F16": _STORE,
    "F16-accepted": _STORE,
    "F17": _LOGS,
    "F17-lag": _LOGS,
    "F19": _ENDS,
    "F20-nearly": _LOGS,
    "F21": _ENDS,
    "F21-unreadable": _ENDS,
    "F22-torn": _FILES,
    "F22-garbage": _FILES,
    "F22-missing": _FILES,
    "F23": _LOGS,
    "F24": _FILES,
    "F25-epochs": _FILES,
    "F25-hw": _FILES,
    "F26": "gateways' clocks jump in the split form, too, and with those of nodes",
    "F28": _FILES,
    "F28-foreign": "the process ends before it has a gateway",
    "F29-off": "who is elected; that clients are left with one gateway, or none, is F11-killed and F6",
    "F29-on": "as F29-off",
    "F29-asked": "as F29-off",
    "F31": _ENDS,
    "F31-gateway": "files and connections have one limit in such a process: then its directory fails, F20",
    "F35-pause": "F4, in which members have another coordinator, and F35",
    "F35-cut": "F9, as F35-pause",
    "F37": _ENDS,
}
"""Why a fault has no case with nodes that are their own gateways, by its id."""


def combine(fault: Fault) -> None:
    """Gives the fault a cluster as `highwater up --nodes 3` makes it, and its limits there."""
    fault.form = "combined"
    fault.client_settings = COMBINED_CLIENTS
    fault.shape = in_form(fault.shape or Shape(), fault.form)
    if isinstance(fault, PauseLeader | CutOffLeader | MuteLeader | LeaderWithoutController):
        fault.pause_s_max = COMBINED_PAUSE_S_MAX
    elif isinstance(fault, PauseFollower):
        fault.pause_s_max = COMBINED_PAUSE_S_MAX  # It leads other partitions.
    elif isinstance(fault, StalledDisk):
        fault.pause_s_max = HUNG_S_MAX - SESSION_S + COMBINED_PAUSE_S_MAX


def grpcio_faults() -> list[Fault]:
    """Those in which a peer of the hop dies, is silent, slow or hard to reach, with `hop.transport = grpcio`."""
    found: list[Fault] = [
        KillLeader(),
        ChaseLeader(rounds=2),
        TerminateLeader(),
        PauseLeader(),
        PauseFollower(),
        KillEverything(),
        CutOffLeader(),
        MuteLeader(),
        LeaderWithoutFollowers(),
        LeaderWithoutController(),
        StalledDisk(),
        RollingRestart(),
        FewConnections(),
        KillCoordinator(),
        PausedCoordinator(),
        PacketLoss(),
        PacketDisorder(),
        BrokenConnections(who="nodes"),
    ]
    for fault in found:
        fault.form = "grpcio"
        fault.shape = in_form(fault.shape or Shape(), fault.form)
    return found


def name_of(fault: Fault) -> str:
    """The fault's id, its variant, and its form if that is not the usual one."""
    variant = [str(getattr(fault, field)) for field in ("how", "who") if hasattr(fault, field)]
    if fault.form != Fault.form:
        variant.append(fault.form)
    return "-".join([fault.id, *(word.replace(" ", "-") for word in variant)])
