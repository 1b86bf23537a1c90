"""The error codes agree with an independent copy of Kafka's table."""

import kio.schema.errors
import pytest

from highwater.kafka.error_codes import ErrorCode, error_code_of


def test_every_code_matches_the_oracle_in_name_number_and_retriability() -> None:
    ours = {(code.name, int(code), code.retriable) for code in ErrorCode}
    theirs = {
        (code.name.upper(), int(code), code.retriable) for code in kio.schema.errors.ErrorCode
    }
    assert ours == theirs


def test_messages_are_sentences_and_distinct() -> None:
    messages = [code.message for code in ErrorCode]
    assert len(set(messages)) == len(messages)
    assert all(message.endswith(".") and message[0] != " " for message in messages)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, ErrorCode.NONE), (45, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (31_000, ErrorCode(-1))],
)
def test_error_code_of_maps_unknown_values_to_unknown_server_error(
    value: int, expected: ErrorCode
) -> None:
    assert error_code_of(value) is expected
