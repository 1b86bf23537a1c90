"""The filter of DescribeClientQuotas: which entities it matches (`ClientQuotasImage` in Kafka)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequestComponentData,
)
from highwater.model.client_quotas import CLIENT_ID, ENTITY_TYPES, IP, USER, QuotaEntity

MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_SPECIFIED: Final = 2
"""Any name, and the default, as long as the entity has that type."""


class RefusedFilter(NamedTuple):
    """Why a filter cannot be used."""

    error_code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFilter:
    """A filter that can be used."""

    exact: Mapping[str, str | None]
    """Names by type; None is the default."""
    specified: frozenset[str]
    """Types with any name."""
    strict: bool
    """True: entities with further types do not match."""

    def matches(self, entity: QuotaEntity) -> bool:
        """True if the entity is among those asked for."""
        names = dict(entity)
        if self.strict and len(names) != len(self.exact) + len(self.specified):
            return False
        if any(kind not in names for kind in self.specified):
            return False
        return all(kind in names and names[kind] == name for kind, name in self.exact.items())


def quota_filter(
    components: Sequence[DescribeClientQuotasRequestComponentData], *, strict: bool
) -> QuotaFilter | RefusedFilter:
    """The filter of a request."""
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            return _invalid("Invalid empty entity type.")
        if kind in exact or kind in specified:
            return _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            why = f"Unsupported entity type {kind}"
            return RefusedFilter(ErrorCode.UNSUPPORTED_VERSION, why)
        why_not = _match_error(component.match_type, component.match)
        if why_not is not None:
            return _invalid(why_not)
        if component.match_type == MATCH_SPECIFIED:
            specified.add(kind)
        else:
            exact[kind] = component.match
    kinds = exact.keys() | specified
    if IP in kinds and not kinds.isdisjoint({USER, CLIENT_ID}):
        return _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )
    return QuotaFilter(exact=exact, specified=frozenset(specified), strict=strict)


def _match_error(match_type: int, match: str | None) -> str | None:
    if match_type == MATCH_EXACT:
        if match is None:
            return "Request specified MATCH_TYPE_EXACT, but set match string to null."
        return None
    names = {MATCH_DEFAULT: "MATCH_TYPE_DEFAULT", MATCH_SPECIFIED: "MATCH_TYPE_SPECIFIED"}
    name = names.get(match_type)
    if name is None:
        return f"Unknown match type {match_type}"
    if match is not None:
        return f"Request specified {name}, but also specified a match string."
    return None


def _invalid(message: str) -> RefusedFilter:
    return RefusedFilter(ErrorCode.INVALID_REQUEST, message)
