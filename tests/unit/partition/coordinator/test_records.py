import pytest

from highwater.kafka.errors import DecodeError
from highwater.partition.coordinator.records import EncodedRecord, UnknownRecordError
from tests.unit.partition.coordinator.counter import COUNTERS, Count


@pytest.mark.parametrize("record", [Count("a", 7), Count("a", None)])
def test_a_codec_is_two_functions(record):
    encoded = COUNTERS.codec.encode(record)
    assert isinstance(encoded, EncodedRecord)
    assert COUNTERS.codec.decode(encoded.key, encoded.value) == record


def test_unknown_records_are_undecodable_records_that_may_be_skipped():
    assert issubclass(UnknownRecordError, DecodeError)
    with pytest.raises(UnknownRecordError):
        COUNTERS.codec.decode(b"\0\x09", b"")
