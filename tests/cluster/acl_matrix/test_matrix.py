"""Every API with each operation on each type of resource, allowed and denied in every way.

A request without a row fails `test_every_api_has_a_row`. Outside `make full` a row is tried with nothing,
with a literal and a prefixed entry, with one that denies, and with one for another user.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from highwater.gateway.handling.apis import APIS
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_delegation_token import CreateDelegationTokenRequest
from highwater.kafka.messages.describe_cluster import DescribeClusterRequest
from highwater.kafka.messages.describe_delegation_token import DescribeDelegationTokenRequest
from highwater.kafka.messages.expire_delegation_token import ExpireDelegationTokenRequest
from highwater.kafka.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.cluster.acl_matrix.cases import Case, cases
from tests.cluster.acl_matrix.cluster_rows import CLUSTER_ROWS
from tests.cluster.acl_matrix.group_rows import GROUP_ROWS
from tests.cluster.acl_matrix.rows import HIDDEN, Row
from tests.cluster.acl_matrix.topic_rows import TOPIC_ROWS
from tests.cluster.acl_matrix.world import World, heard_by

ROWS = (*TOPIC_ROWS, *GROUP_ROWS, *CLUSTER_ROWS)
NOTHING_NEEDED = frozenset(
    (
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_CLUSTER,
    )
)
"""What any client may send; see `test_what_needs_nothing` for the last four."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("matrix"))
    yield made
    complaints = made.complaints
    made.close()
    assert complaints == []


def test_every_api_has_a_row() -> None:
    assert {row.api_key for row in ROWS} == set(APIS) - NOTHING_NEEDED


def test_rows_have_names_of_their_own_and_versions_that_are_served() -> None:
    titles = [row.title for row in ROWS]
    assert len(titles) == len(set(titles))
    for row in ROWS:
        assert APIS[row.api_key].serves(row.version), row.title


def test_what_needs_nothing(world: World) -> None:
    """But without DESCRIBE on the cluster nobody learns what may be done to it."""
    world.allow(())
    answer = world.alice.ask(DescribeClusterRequest(True), 1)
    assert (answer.error_code, answer.cluster_authorized_operations) == (ErrorCode.NONE, 0)
    assert answer.brokers
    # As for tokens, the answer is the same whoever asks: there are none.
    for request, version in (
        (CreateDelegationTokenRequest(max_lifetime_ms=-1), 3),
        (RenewDelegationTokenRequest(b"hmac", 1), 2),
        (ExpireDelegationTokenRequest(b"hmac", 1), 2),
        (DescribeDelegationTokenRequest(None), 3),
    ):
        told = world.alice.ask(request, version).error_code
        assert told == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


@pytest.mark.parametrize("row", [pytest.param(row, id=row.title) for row in ROWS])
def test_a_share_of_the_matrix(world: World, row: Row) -> None:
    names = world.spare if row.spare else world.there
    wrong = [_tried(world, row, case) for case in cases(row, names) if case.always]
    assert list(filter(None, wrong)) == []


@pytest.mark.full
@pytest.mark.parametrize("row", [pytest.param(row, id=row.title) for row in ROWS])
def test_the_matrix(world: World, row: Row) -> None:
    names = world.spare if row.spare else world.there
    wrong = [_tried(world, row, case) for case in cases(row, names)]
    assert list(filter(None, wrong)) == []


def _tried(world: World, row: Row, case: Case) -> str:
    """What is wrong, or nothing."""
    names = world.spare if row.spare else world.there
    expected = row.allowed if case.allowed else frozenset((row.denied,))
    world.allow(case.entries)
    deadline = heard_by()
    while True:
        if row.prepare:
            getattr(world, row.prepare)()
        code = row.code(world.alice.ask(row.request(names), row.version), names)
        if code in expected:
            return ""
        if time.monotonic() > deadline:
            wanted = "a denial" if not case.allowed else "what the allowed get"
            return f"{case.title}: {_name(code)}, not {wanted}"
        time.sleep(0.1)


def _name(code: int) -> str:
    return "HIDDEN" if code == HIDDEN else ErrorCode(code).name
