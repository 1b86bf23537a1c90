"""CreateAcls and DeleteAcls (Kafka: `AclControlManager`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.controller.core.change_instances import closed_instance
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acls import Acl, AclFilter, invalid_entry, invalid_filter
from highwater.model.authorization import THE_CLUSTER, ResourceType
from highwater.model.cluster import ClusterDelta, ClusterImage

ACLS_MAX: Final = 10_000
"""Entries in one instance: all members have them in memory, less than 4 KiB each."""
TEXT_LENGTH_MAX: Final = 1_024
"""Characters of a name, a principal or a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What a filter has removed, or why it removes nothing."""

    refusal: Refusal | None = None
    acls: tuple[Acl, ...] = ()


def create_acls(image: ClusterImage, wanted: Sequence[Acl]) -> Decision[list[Refusal | None]]:
    """The new entries, and each one's outcome; one that is there already is a success."""
    outcomes: list[Refusal | None] = []
    new: dict[Acl, bool] = {}
    count = sum(1 for acl in image.acls if wanted and acl.instance == wanted[0].instance)
    for acl in wanted:
        refusal = _refusal(acl) or closed_instance(image, acl.instance)
        if refusal is None and acl not in image.acls and acl not in new:
            if count >= ACLS_MAX:
                why = f"No more than {ACLS_MAX} ACLs can be kept"
                refusal = Refusal(code=ErrorCode.POLICY_VIOLATION, message=why)
            else:
                count += 1
                new[acl] = True
        outcomes.append(refusal)
    delta = ClusterDelta(revision=PENDING_REVISION, acls=new) if new else None
    return Decision(delta=delta, result=outcomes)


def delete_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> Decision[list[Removal]]:
    """What each filter removes; an entry that two filters match is told for both, as in Kafka."""
    removals: list[Removal] = []
    gone: dict[Acl, bool] = {}
    for each in filters:
        why = invalid_filter(each)
        if why is not None:
            removals.append(Removal(refusal=_invalid(why)))
            continue
        matching = tuple(sorted(acl for acl in image.acls if each.matches(acl)))
        removals.append(Removal(acls=matching))
        gone.update(dict.fromkeys(matching, False))
    delta = ClusterDelta(revision=PENDING_REVISION, acls=gone) if gone else None
    return Decision(delta=delta, result=removals)


def _refusal(acl: Acl) -> Refusal | None:
    why = invalid_entry(acl)
    if why is not None:
        return _invalid(why)
    if not acl.name:
        return _invalid("Resource name should not be empty")
    if acl.resource_type == ResourceType.CLUSTER and acl.name != THE_CLUSTER.name:
        return _invalid(f"The only valid name for the CLUSTER resource is {THE_CLUSTER.name}")
    if ":" not in acl.principal:
        return _invalid(
            f"Could not parse principal from `{acl.principal[:TEXT_LENGTH_MAX]}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    if not acl.host:
        return _invalid("Host should not be empty")
    if max(map(len, (acl.name, acl.principal, acl.host))) > TEXT_LENGTH_MAX:
        return _invalid(f"A name, a principal or a host has at most {TEXT_LENGTH_MAX} characters")
    return None


def _invalid(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_REQUEST, message=message)
