"""ListTransactions v0-2 (key 66, KIP-664): the transactional ids of the instance in all
shards of this node.

* Filters: states and producer ids, v1 how long a transaction has been running (KIP-994).
* While a shard is being loaded, nothing is told but COORDINATOR_LOAD_IN_PROGRESS, as in Kafka.
* v2 has a pattern of transactional ids (KIP-1152). It is not served: INVALID_REGULAR_EXPRESSION.
  Patterns come from clients, and Python's own engine takes exponential time for some.
"""

from collections.abc import Iterable

from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_transactions import (
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
    decode_request,
    encode_response,
)
from highwater.partition.transactions.core.shard import TransactionShard
from highwater.partition.transactions.core.state import TransactionState
from highwater.partition.transactions.core.values import Filters

_STATES = {state.value: state for state in TransactionState}


def handle(
    shards: Iterable[TransactionShard], call: CoordinatorCall, *, loading: bool, wall_ms: int
) -> bytes:
    """Those that pass all filters."""
    version = call.api_version
    body = decode_request(call.body, 0, version)
    if loading:
        return _failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    if body.transactional_id_pattern:
        return _failed(ErrorCode.INVALID_REGULAR_EXPRESSION, version)
    filters = Filters(
        producer_ids=frozenset(body.producer_id_filters),
        states=frozenset(_STATES[name] for name in body.state_filters if name in _STATES),
        has_state_filter=bool(body.state_filters),
        duration_ms=body.duration_filter,
    )
    found = [
        ListTransactionsResponseTransactionState(
            transactional_id=key.transactional_id,
            producer_id=image.producer_id,
            transaction_state=image.state.value,
        )
        for shard in shards
        for key, image in shard.matching(call.instance, filters, wall_ms)
    ]
    unknown = [name for name in body.state_filters if name not in _STATES]
    return encode_response(
        ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found), version
    )


def _failed(error: ErrorCode, version: int) -> bytes:
    return encode_response(ListTransactionsResponse(error_code=error), version)
