"""ListTransactions v0-2 (key 66, KIP-664): the transactional ids of the instance in all
shards of this node.

* Filters: states and producer ids, v1 how long a transaction has been running (KIP-994).
* While a shard is being loaded, nothing is told but COORDINATOR_LOAD_IN_PROGRESS, as in Kafka.
* v2: a pattern that the whole transactional id must match (KIP-1152), in RE2's syntax; one that is none is
  INVALID_REGULAR_EXPRESSION. Ids that pass the other filters are matched in steps, as they were when the
  request came: patterns come from clients, and a node may have very many ids.
"""

from collections.abc import Iterable
from typing import Final

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_transactions import (
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
    decode_request,
    encode_response,
)
from highwater.model.steps import Steps
from highwater.partition.coordinator.core.regex import InvalidRegexError, Pattern, compile_pattern
from highwater.partition.transactions.core.image import TransactionImage
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.state import TransactionState
from highwater.partition.transactions.core.values import Filters

_STATES = {state.value: state for state in TransactionState}

_COST_PER_STEP: Final = 1_000
"""What one step matches, as `Pattern.cost` counts for ids as long as topics' names may be: about a
millisecond with usual patterns."""
_CHARS_PER_COST: Final = 250

_Found = list[tuple[str, TransactionImage]]


def handle(
    shards: Iterable[TransactionShard], call: CoordinatorCall, *, loading: bool, wall_ms: int
) -> Steps[bytes]:
    """Those that pass all filters. The shards are read in the first step."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    if loading:
        return _failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    try:
        text = body.transactional_id_pattern
        pattern = compile_pattern(text) if text else None
    except InvalidRegexError:
        return _failed(ErrorCode.INVALID_REGULAR_EXPRESSION, version)
    filters = Filters(
        producer_ids=frozenset(body.producer_id_filters),
        states=frozenset(_STATES[name] for name in body.state_filters if name in _STATES),
        has_state_filter=bool(body.state_filters),
        duration_ms=body.duration_filter,
    )
    passed = [
        (key.transactional_id, image)
        for shard in shards
        for key, image in shard.matching(call.instance, filters, wall_ms)
    ]
    if pattern is not None:
        passed = yield from _matching(pattern, passed)
    found = [
        ListTransactionsResponseTransactionState(
            transactional_id=transactional_id,
            producer_id=image.producer_id,
            transaction_state=image.state.value,
        )
        for transactional_id, image in passed
    ]
    unknown = [name for name in body.state_filters if name not in _STATES]
    return encode_response(
        ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found), version
    )


def _matching(pattern: Pattern, passed: _Found) -> Steps[_Found]:
    found: _Found = []
    cost = 0
    for one in passed:
        transactional_id = one[0]
        if pattern.matches(transactional_id):
            found.append(one)
        cost += pattern.cost * (1 + len(transactional_id) // _CHARS_PER_COST)
        if cost >= _COST_PER_STEP:
            cost = 0
            yield
    return found


def _failed(error: ErrorCode, version: int) -> bytes:
    return encode_response(ListTransactionsResponse(error_code=error), version)
