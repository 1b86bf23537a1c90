from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE
from tests.unit.partition.coordinator.counter import ADD, COUNTERS, PEEK, SUM

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def call_of(api_key: int) -> tuple[CoordinatorCall, list[tuple[int, bytes]]]:
    told: list[tuple[int, bytes]] = []
    call = CoordinatorCall(
        api_key=api_key,
        api_version=0,
        instance=DEFAULT_INSTANCE,
        client_id="app",
        client_host="127.0.0.1",
        body=b"",
        partition=0,
        deadline_ms=0,
        reply=lambda error, body: told.append((error, body)),
    )
    return call, told


def test_a_call_is_answered_once():
    call, told = call_of(ADD)
    COUNTERS.replies.deliver(call, b"1", 0)
    COUNTERS.replies.deliver(call, b"2", 0)
    COUNTERS.replies.refuse(call, ErrorCode.NOT_COORDINATOR)
    assert told == [(0, b"1")]


def test_nobody_hears_the_answer_to_a_cancelled_call():
    call, told = call_of(ADD)
    call.cancelled = True
    COUNTERS.replies.deliver(call, b"1", 0)
    assert told == []


def test_errors_have_no_body_and_are_told_in_the_words_of_their_api():
    for api_key, code in ((ADD, 15), (SUM, ErrorCode.NETWORK_EXCEPTION)):
        call, told = call_of(api_key)
        COUNTERS.replies.deliver(call, b"ignored", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert told == [(code, b"")]
        assert type(told[0][0]) is int


def test_some_calls_have_an_answer_while_their_shard_is_loaded():
    for api_key, error, answer in (
        (PEEK, LOADING, (0, b"soon")),
        (ADD, LOADING, (LOADING, b"")),
        (PEEK, ErrorCode.NOT_COORDINATOR, (ErrorCode.NOT_COORDINATOR, b"")),
    ):
        call, told = call_of(api_key)
        COUNTERS.replies.refuse(call, error)
        assert told == [answer]
