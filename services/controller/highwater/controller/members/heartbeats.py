"""What nodes tell the active controller, and what they hear."""

from dataclasses import dataclass, field

from highwater.controller.core.full_replicas import Replicas
from highwater.controller.core.offline_replicas import OfflineReplicas
from highwater.controller.core.outcome import Refusal
from highwater.model.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHeartbeat:
    """What a node reports in a heartbeat."""

    node_id: NodeId
    node_epoch: int
    applied_revision: int
    wants_shutdown: bool = False
    waits_for_gateway: bool = False
    """If it is fenced, it is to remain so until the gateway of its process is registered."""
    failed_log_dirs: tuple[str, ...] = ()
    offline_replicas: OfflineReplicas = field(default_factory=dict)
    full_replicas: Replicas = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult:
    """The controller's answer to a heartbeat."""

    refusal: Refusal | None = None
    fenced: bool = False
    may_shut_down: bool = False
