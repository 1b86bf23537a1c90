"""The parts of a log share one `LogPlace`, so all of them see its changes."""

from dataclasses import replace
from pathlib import Path

from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.place import LogPlace
from tests.support.log_batches import ManualClock, append, make_batch, open_log


def test_each_log_has_its_own_log_life(tmp_path: Path) -> None:
    environment = InlineEnvironment()
    config = open_log(tmp_path / "topic-0").config
    one, other = (
        LogPlace(str(tmp_path), config=config, clock=ManualClock(), environment=environment)
        for _ in range(2)
    )
    one.life.ended = True
    assert not other.life.ended


def test_parts_see_new_configs_and_a_new_directory(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    append(log, make_batch(), epoch=0)
    size = log.extent.size_bytes
    log.reconfigure(replace(log.config, segment_bytes=2 * size, flush_messages=5))
    append(log, make_batch(), make_batch())
    assert [segment.base_offset for segment in log.extent.all] == [0, 2]
    assert log.durability.flush_at_offset == log.durability.recovery_point + 5
    log.closing.set_aside("0123456789abcdef0123456789abcdef")
    assert log.directory == str(tmp_path / "topic-0.0123456789abcdef0123456789abcdef-stray")
    assert {Path(segment.file).parent.name for segment in log.extent.all} == {
        Path(log.directory).name
    }
