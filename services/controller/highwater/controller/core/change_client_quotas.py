"""AlterClientQuotas: sets and removes client quotas (KIP-546; `ClientQuotaControlManager` in Kafka).

Where Kafka looks a host name up to see whether it is an address, only addresses are taken here:
nothing else can be compared with a connection's. Values that are not finite are refused, and the
length of names and the number of entities have limits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from math import isfinite
from typing import Final

from highwater.controller.core.change_instances import closed_instance
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    ENTITY_TYPES,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotaKey,
    QuotaEntity,
    quota_entity,
)
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import InstanceId
from highwater.model.steps import Steps

ENTITIES_MAX: Final = 10_000
"""Entities with quotas in one instance: every member has them in memory, some 1 KiB each."""

NAME_LENGTH_MAX: Final = 1_024
"""Characters of a name: room for the distinguished name of a certificate."""

_INT_MAX: Final = float(2**31 - 1)
_LONG_MAX: Final = float(2**63 - 1)
_WHOLE: Final = 1e-6
"""How far from a whole number a value may be that has to be one."""

_STEP_ALTERATIONS: Final = 20
"""Alterations in one step: a fraction of a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What a quota's value may be: at most `maximum`, and whole or not."""

    type_name: str
    maximum: float | None


_DOUBLE: Final = _Kind(type_name="a DOUBLE", maximum=None)
_OF_CLIENTS: Final[Mapping[str, _Kind]] = {
    PRODUCER_BYTE_RATE: _Kind(type_name="a LONG", maximum=_LONG_MAX),
    CONSUMER_BYTE_RATE: _Kind(type_name="a LONG", maximum=_LONG_MAX),
    REQUEST_PERCENTAGE: _DOUBLE,
    CONTROLLER_MUTATION_RATE: _DOUBLE,
}
_OF_ADDRESSES: Final[Mapping[str, _Kind]] = {
    CONNECTION_CREATION_RATE: _Kind(type_name="an INT", maximum=_INT_MAX)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlteration:
    """The change of one entity's quotas."""

    entity: QuotaEntity
    """Parts as given by the client."""
    operations: Sequence[tuple[str, float | None]]
    """Names and new values; None removes."""


def altering_client_quotas(
    image: ClusterImage, instance: InstanceId, alterations: Sequence[QuotaAlteration]
) -> Steps[Decision[list[Refusal | None]]]:
    """The changed quotas, and for each alteration what its entity is answered; None is success.

    As in Kafka, of several alterations of one entity the first one is carried out, and the answer is
    that of the last one, an error.
    """
    closed = closed_instance(image, instance)
    if closed is not None:
        return Decision(delta=None, result=[closed] * len(alterations))
    present = sum(1 for key in image.client_quotas if key.instance == instance)
    outcomes: dict[QuotaEntity, Refusal | None] = {}
    changed: dict[ClientQuotaKey, Mapping[str, float]] = {}
    for number, alteration in enumerate(alterations):
        if number % _STEP_ALTERATIONS == 0:
            yield
        entity = quota_entity(alteration.entity)
        operations = dict(alteration.operations)
        if entity in outcomes or len(operations) != len(alteration.operations):
            outcomes[entity] = _invalid(f"Ignoring duplicate entity {_described(entity)}")
            continue
        key = ClientQuotaKey(instance, entity)
        before = image.client_quotas.get(key, {})
        after = _altered(entity, before, operations)
        if not isinstance(after, Refusal) and after and not before and present >= ENTITIES_MAX:
            why = f"No more than {ENTITIES_MAX} entities can have quotas."
            after = Refusal(code=ErrorCode.POLICY_VIOLATION, message=why)
        if isinstance(after, Refusal):
            outcomes[entity] = after
            continue
        outcomes[entity] = None
        present += bool(after) - bool(before)
        if after != before:
            changed[key] = after
    delta = ClusterDelta(revision=PENDING_REVISION, client_quotas=changed) if changed else None
    results = [outcomes[quota_entity(alteration.entity)] for alteration in alterations]
    return Decision(delta=delta, result=results)


def _altered(
    entity: QuotaEntity, before: Mapping[str, float], operations: Mapping[str, float | None]
) -> dict[str, float] | Refusal:
    """The values after the operations."""
    kinds = _kinds_of(entity)
    if isinstance(kinds, Refusal):
        return kinds
    after = dict(before)
    for key, value in operations.items():
        if value is None:
            after.pop(key, None)
            continue
        why = _value_error(kinds, key, value)
        if why is not None:
            return _invalid(why)
        after[key] = value
    return after


def _kinds_of(entity: QuotaEntity) -> Mapping[str, _Kind] | Refusal:
    """The quotas that such an entity can have."""
    if not entity:
        return _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            return _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            return _invalid(f"Empty {kind} not supported")
        if name is not None and len(name) > NAME_LENGTH_MAX:
            return _invalid(f"The name of a {kind} has at most {NAME_LENGTH_MAX} characters.")
    names = dict(entity)
    if IP not in names:
        return _OF_CLIENTS
    if len(names) > 1:
        why = "IP entity shouldnot be combined with User or ClientId"
        return _invalid(f"Invalid quota entity combination, {why}")
    name = names[IP]
    if name is not None and not _is_address(name):
        return _invalid(f"{name} is not a valid IP address.")
    return _OF_ADDRESSES


def _value_error(kinds: Mapping[str, _Kind], key: str, value: float) -> str | None:
    """Why the quota cannot have this value; None if it can."""
    kind = kinds.get(key)
    if kind is None:
        return f"Invalid configuration key {key}"
    if value <= 0.0:
        return f"Quota {key} must be greater than 0"
    if not isfinite(value):
        return f"Quota {key} must be a finite number"
    if kind.maximum is None:
        return None
    if value > kind.maximum:
        return f"Proposed value for {key} is too large for {kind.type_name}."
    return f"{key} cannot be a fractional value." if value % 1.0 > _WHOLE else None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_REQUEST, message=message)


def _described(entity: QuotaEntity) -> str:
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"
