"""Control batches that end a transaction (Kafka's `ControlRecordType` and `EndTransactionMarker`).

One record, never compressed: the key is int16 version and int16 type (0 abort, 1 commit), the value
int16 version and int32 coordinator epoch. `builder.end_transaction_marker` makes them.
"""

from struct import Struct
from typing import Final, NamedTuple

from highwater.kafka.errors import RecordsError
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.record import iter_raw_records

ABORT: Final = 0
COMMIT: Final = 1
CONTROL_BYTES_MAX: Final = 4096
"""Of a control batch. A marker has 78 bytes; more is read of none."""

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")


class EndMarker(NamedTuple):
    """How a transaction ended, by the word of a coordinator in this epoch."""

    committed: bool
    coordinator_epoch: int


def read_end_marker(payload: Buffer, record_count: int) -> EndMarker | None:
    """The marker in a control batch's records, which are all bytes behind its header.

    None if compaction has removed the record, and for control records of other types.
    Raises RecordsError.
    """
    if not record_count:
        return None
    record = next(iter_raw_records(payload, record_count))
    if record.key is None or len(record.key) < _KEY.size:
        raise RecordsError("a control record's key is too short")
    kind = _KEY.unpack_from(record.key)[1]
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise RecordsError("a transaction marker's value is too short")
    return EndMarker(kind == COMMIT, _VALUE.unpack_from(record.value)[1])
