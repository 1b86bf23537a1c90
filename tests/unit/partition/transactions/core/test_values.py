from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.core.values import NO_PRODUCER, Decision, refused


def test_a_refusal_writes_nothing_and_names_no_producer():
    decision = refused(ErrorCode.PRODUCER_FENCED)
    assert decision == Decision(error=ErrorCode.PRODUCER_FENCED)
    assert decision.image is None
    assert decision.producer == NO_PRODUCER == (-1, -1)
