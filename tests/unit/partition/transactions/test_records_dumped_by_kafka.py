"""Kafka's own DumpLogSegments decodes what the coordinator writes, from a transaction's beginning to its
end and until its id expires.
"""

import json
import re
from pathlib import Path

import pytest

from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.partition.transactions.core.image import TransactionRecord
from highwater.partition.transactions.core.state import STATE_IDS
from highwater.partition.transactions.records import VALUE_VERSION, encode
from tests.support.java_tools import DUMP_LOG_SEGMENTS, java_tool
from tests.support.log_batches import append, open_log
from tests.unit.partition.transactions.core.dialogue import T0, T1, Dialogue

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]


def history() -> list[TransactionRecord]:
    d = Dialogue()
    me = d.begin()
    for commit in (True, False):
        d.add(me, T0, T1)
        me = d.end(me, commit=commit).producer
        d.complete()
    d.pass_ms(d.config.id_expiration_ms + d.config.id_expiration_check_ms)
    return d.written


def batch_of(record: TransactionRecord) -> bytes:
    key, value = encode(record)
    builder = RecordBatchBuilder()
    builder.append(key=key, value=value, timestamp_ms=1_700_000_000_000)
    return builder.build()


def test_each_state_of_two_transactions(tmp_path: Path) -> None:
    records = history()
    log = open_log(tmp_path / "__transaction_state-0")
    append(log, *map(batch_of, records))
    log.close(clean=True)
    [file] = (tmp_path / "__transaction_state-0").glob("*.log")
    done = java_tool(DUMP_LOG_SEGMENTS, "--transaction-log-decoder", "--files", str(file))
    assert "isvalid: false" not in done.stdout
    told = re.findall(r"key: (\{.*?\}) payload: (.*)", done.stdout)
    assert [json.loads(key)["data"] for key, _ in told] == [{"transactionalId": "tx"}] * 8
    *values, last = [payload for _, payload in told]
    decoded = [json.loads(value) for value in values]
    assert {int(value["version"]) for value in decoded} == {VALUE_VERSION}
    images = [record.value for record in records[:-1]]
    assert [
        (data["producerId"], data["producerEpoch"], data["transactionStatus"])
        for data in (value["data"] for value in decoded)
    ] == [(one.producer_id, one.producer_epoch, STATE_IDS[one.state]) for one in images]
    assert decoded[1]["data"]["transactionPartitions"] == [{"topic": "t", "partitionIds": [0, 1]}]
    assert decoded[1]["data"]["clientTransactionVersion"] == 2
    assert last == "<DELETE>", "the id has expired"
