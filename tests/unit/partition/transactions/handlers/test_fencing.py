import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.transactions.handlers.fencing import fenced_for


@pytest.mark.parametrize(
    ("error", "version", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 2, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.INVALID_TXN_STATE, 1, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NONE, 1, ErrorCode.NONE),
    ],
)
def test_old_clients_know_another_code(error, version, told):
    assert fenced_for(error, version, knows_from=2) is told
