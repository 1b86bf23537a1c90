from highwater.partition.core.producer_entry import (
    ENTRY_BYTES,
    NO_TRANSACTION,
    ProducerEntry,
    in_transaction,
    newest,
    unpacked,
    with_transaction,
)

ENTRY = ProducerEntry(
    producer_id=1 << 40,
    producer_epoch=3,
    last_sequence=9,
    last_offset=1 << 50,
    offset_delta=4,
    timestamp=1_700_000_000_000,
    coordinator_epoch=2,
    current_txn_first_offset=1 << 49,
)


def test_the_bytes_are_those_of_kafka_s_schema() -> None:
    assert ENTRY_BYTES == 46
    assert ENTRY.packed().hex() == (
        "0000010000000000" "0003" "00000009" "0004000000000000" "00000004" "0000018bcfe56800"
        "00000002" "0002000000000000"
    )  # fmt: skip
    other = ProducerEntry(
        producer_id=0,
        producer_epoch=0,
        last_sequence=-1,
        last_offset=-1,
        offset_delta=0,
        timestamp=-1,
    )
    assert list(unpacked(ENTRY.packed() + other.packed())) == [ENTRY, other]
    assert newest(ENTRY.packed() + other.packed()) == other.packed()


def test_what_the_coordinator_has_said() -> None:
    transaction = ENTRY.packed()[-len(NO_TRANSACTION) :]
    assert in_transaction(transaction)
    assert not in_transaction(NO_TRANSACTION)
    [told] = unpacked(with_transaction(ENTRY.packed(), NO_TRANSACTION))
    assert (told.coordinator_epoch, told.current_txn_first_offset) == (-1, -1)
    assert with_transaction(told.packed(), transaction) == ENTRY.packed()
