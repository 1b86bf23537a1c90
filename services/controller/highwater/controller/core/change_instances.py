"""CreateInstance, SetInstance, DeleteInstance, RestoreInstance.

An instance that is deleted has a time at which it is purged (`purge_instances`); until then nothing can
be added to it, its ports stay its own, and it can be restored. The default instance is always there,
whether or not it has limits, and cannot be created or deleted.
"""

from dataclasses import replace
from typing import Final

from highwater.controller.core.instance_ports import highest_node, port_conflict
from highwater.controller.core.instance_rules import invalid_instance_id, normalised
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal, unchanged
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState

INSTANCES_MAX: Final = 1_000
"""Every gateway has ports for each, and every member has them in memory."""

PURGE_AFTER_MS_DEFAULT: Final = 24 * 3600 * 1000
PURGE_AFTER_MS_MAX: Final = 366 * PURGE_AFTER_MS_DEFAULT

_Outcome = Decision[Refusal | None]


def create_instance(image: ClusterImage, wanted: InstanceState) -> _Outcome:
    """The new instance, or why there cannot be one."""
    why = invalid_instance_id(wanted.instance)
    if why is not None:
        return _refused(ErrorCode.INVALID_REQUEST, why)
    present = image.instances.get(wanted.instance)
    if present is not None:
        return _refused(ErrorCode.DUPLICATE_RESOURCE, _exists(present))
    if len(image.instances) >= INSTANCES_MAX:
        why = f"there are {INSTANCES_MAX} instances, which is the most that can be"
        return _refused(ErrorCode.POLICY_VIOLATION, why)
    return _with(image, wanted)


def set_instance(
    image: ClusterImage, wanted: InstanceState, *, previous: InstanceState | None = None
) -> _Outcome:
    """The instance with everything replaced by what is given, or why it cannot be.

    `previous` is what the caller has made it from, if that matters: two who change one thing each at the
    same time do not undo each other's change. The default instance may have limits and networks, but no
    listeners.
    """
    if wanted.instance != DEFAULT_INSTANCE:
        present = _present(image, wanted.instance)
        if isinstance(present, Refusal):
            return unchanged(present)
        if present.is_deleted:
            why = f"instance '{wanted.instance}' is deleted: restore it first"
            return _refused(ErrorCode.INVALID_REQUEST, why)
    known = image.instances.get(wanted.instance) or InstanceState(instance=wanted.instance)
    if previous is not None and previous != known:
        why = f"instance '{wanted.instance}' was changed by somebody else meanwhile"
        return _refused(ErrorCode.INVALID_UPDATE_VERSION, why)
    return _with(image, wanted)


def delete_instance(
    image: ClusterImage, instance: InstanceId, *, now_ms: int, purge_after_ms: int
) -> Decision[InstanceState | Refusal]:
    """The instance with the time at which it is purged; that of a deleted one may be changed so."""
    if instance == DEFAULT_INSTANCE:
        return unchanged(
            _refusal(ErrorCode.INVALID_REQUEST, "the default instance cannot be deleted")
        )
    if not 0 <= purge_after_ms <= PURGE_AFTER_MS_MAX:
        why = f"an instance is purged after 0 to {PURGE_AFTER_MS_MAX} ms, not {purge_after_ms}"
        return unchanged(_refusal(ErrorCode.INVALID_REQUEST, why))
    present = _present(image, instance)
    if isinstance(present, Refusal):
        return unchanged(present)
    if present.delete_protection:
        why = f"instance '{instance}' is protected from deletion: turn its protection off first"
        return unchanged(_refusal(ErrorCode.POLICY_VIOLATION, why))
    deleted = replace(present, purge_at_ms=now_ms + purge_after_ms)
    delta = ClusterDelta(revision=PENDING_REVISION, instances=(deleted,))
    return Decision(delta=delta, result=deleted)


def restore_instance(image: ClusterImage, instance: InstanceId, *, now_ms: int) -> _Outcome:
    """The instance as it was before it was deleted, or why it cannot be.

    It cannot once its time has come: a part of it may be gone already. Nor if gateways have taken its
    ports meanwhile.
    """
    present = _present(image, instance)
    if isinstance(present, Refusal):
        return unchanged(present)
    if present.purge_at_ms is None:
        return _refused(ErrorCode.INVALID_REQUEST, f"instance '{instance}' is not deleted")
    if present.purge_at_ms <= now_ms:
        why = f"instance '{instance}' is being purged, and cannot be restored any more"
        return _refused(ErrorCode.INVALID_REQUEST, why)
    return _with(image, replace(present, purge_at_ms=None))


def closed_instance(image: ClusterImage, instance: InstanceId) -> Refusal | None:
    """Why nothing can be added to the instance: there is none, or it is deleted. Else None.

    The cluster's own, which begin with '_', need not be among the image's.
    """
    if instance == DEFAULT_INSTANCE or instance.startswith("_"):
        return None
    present = _present(image, instance)
    if isinstance(present, Refusal):
        return _refusal(ErrorCode.INVALID_REQUEST, present.message)
    if present.is_deleted:
        return _refusal(ErrorCode.INVALID_REQUEST, f"instance '{instance}' is deleted")
    return None


def of_the_cluster(instance: InstanceId) -> Refusal | None:
    """Why the instance may not change brokers, which all instances share; None for the default one."""
    if instance == DEFAULT_INSTANCE:
        return None
    why = f"brokers are shared with other instances, and instance '{instance}' may not change them"
    return _refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)


def _with(image: ClusterImage, wanted: InstanceState) -> _Outcome:
    """The image with this instance, if its values are valid and its ports free."""
    if wanted.purge_at_ms is not None:
        return _refused(ErrorCode.INVALID_REQUEST, "an instance is deleted by DeleteInstance")
    state = normalised(wanted, highest_node=highest_node(image))
    if isinstance(state, Refusal):
        return unchanged(state)
    conflict = port_conflict(image, state)
    if conflict is not None:
        return _refused(ErrorCode.INVALID_REQUEST, conflict)
    if image.instances.get(state.instance) == state:
        return unchanged(None)
    delta = ClusterDelta(revision=PENDING_REVISION, instances=(state,))
    return Decision(delta=delta, result=None)


def _present(image: ClusterImage, instance: InstanceId) -> InstanceState | Refusal:
    present = image.instances.get(instance)
    if present is None:
        return _refusal(ErrorCode.RESOURCE_NOT_FOUND, f"there is no instance '{instance[:60]}'")
    return present


def _exists(present: InstanceState) -> str:
    if present.is_deleted:
        return f"instance '{present.instance}' is deleted and not purged yet: restore it, or wait"
    return f"instance '{present.instance}' exists already"


def _refused(code: ErrorCode, message: str) -> _Outcome:
    return unchanged(_refusal(code, message))


def _refusal(code: ErrorCode, message: str) -> Refusal:
    return Refusal(code=code, message=message)
