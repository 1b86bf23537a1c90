from pathlib import Path

import pytest

from highwater.partition.storage.log.append_info import LogAppendInfo
from tests.support.log_batches import append, make_batch, open_log


@pytest.mark.parametrize("field", LogAppendInfo.__slots__)
def test_an_append_with_a_missing_field_fails(tmp_path: Path, field: str) -> None:
    """Fields have no defaults, so that a forgotten field fails at once."""
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    batch = make_batch(base_offset=1)
    info = LogAppendInfo()
    info.buffers = [batch]
    info.base_offsets = [1]
    info.sizes = [len(batch)]
    info.nbytes = len(batch)
    info.next_offset = 2
    info.max_timestamp, info.max_timestamp_offset = 2000, 1
    info.leader_epoch = 1
    delattr(info, field)
    with pytest.raises(AttributeError, match=field):
        log.writer.append(info)
    assert log.log_end_offset == 1
