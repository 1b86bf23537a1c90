import pytest

from highwater.gateway.handling.client_quota_filter import (
    MATCH_DEFAULT,
    MATCH_EXACT,
    MATCH_SPECIFIED,
    QuotaFilter,
    RefusedFilter,
    quota_filter,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequestComponentData as Component,
)

ENTITIES = (
    (("user", "a"),),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", "c"), ("user", "a")),
    (("client-id", None), ("user", "a")),
    (("ip", "::1"),),
)
USER_A, USER_ANY, CLIENT_C, BOTH, A_DEFAULT, ADDRESS = range(6)


def matches(*components: tuple[str, int, str | None], strict: bool = False) -> list[int]:
    """Numbers of the entities above that the filter matches."""
    made = quota_filter([Component(*one) for one in components], strict=strict)
    assert isinstance(made, QuotaFilter), made
    return [number for number, entity in enumerate(ENTITIES) if made.matches(entity)]


def test_exact_default_and_any_name():
    assert matches(("user", MATCH_EXACT, "a")) == [USER_A, BOTH, A_DEFAULT]
    assert matches(("user", MATCH_DEFAULT, None)) == [USER_ANY]
    assert matches(("user", MATCH_SPECIFIED, None)) == [USER_A, USER_ANY, BOTH, A_DEFAULT]
    assert matches(("user", MATCH_EXACT, "nobody")) == []
    assert matches(("ip", MATCH_SPECIFIED, None)) == [ADDRESS]


def test_components_have_to_match_all():
    user = ("user", MATCH_EXACT, "a")
    assert matches(user, ("client-id", MATCH_EXACT, "c")) == [BOTH]
    assert matches(user, ("client-id", MATCH_DEFAULT, None)) == [A_DEFAULT]
    assert matches(user, ("client-id", MATCH_SPECIFIED, None)) == [BOTH, A_DEFAULT]


def test_a_strict_filter_leaves_out_entities_with_further_types():
    assert matches(("user", MATCH_EXACT, "a"), strict=True) == [USER_A]
    both = ("user", MATCH_EXACT, "a"), ("client-id", MATCH_SPECIFIED, None)
    assert matches(*both, strict=True) == [BOTH, A_DEFAULT]


def test_no_components():
    assert matches() == list(range(6))
    assert matches(strict=True) == []


@pytest.mark.parametrize(
    ("components", "why"),
    [
        ([("", MATCH_EXACT, "a")], "Invalid empty entity type."),
        ([("user", 0, "a"), ("user", 2, None)], "Entity type user cannot appear more than once"),
        ([("user", MATCH_EXACT, None)], "MATCH_TYPE_EXACT, but set match string to null"),
        ([("user", MATCH_DEFAULT, "")], "MATCH_TYPE_DEFAULT, but also specified a match string"),
        ([("user", MATCH_SPECIFIED, "a")], "MATCH_TYPE_SPECIFIED, but also specified"),
        ([("user", 3, None)], "Unknown match type 3"),
        ([("ip", 2, None), ("user", 2, None)], "IP filter component should not be used with"),
        ([("client-id", 1, None), ("ip", 0, "::1")], "IP filter component should not be used"),
    ],
)
def test_filters_that_cannot_be_used(components, why):
    refused = quota_filter([Component(*one) for one in components], strict=False)
    assert isinstance(refused, RefusedFilter)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert why in refused.message


def test_a_type_that_is_not_known():
    refused = quota_filter([Component("group", MATCH_EXACT, "g")], strict=False)
    assert refused == (ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group")
