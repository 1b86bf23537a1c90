"""The end of a log."""

from pathlib import Path
from typing import ClassVar

from highwater.partition.storage.log.environment import InlineEnvironment
from tests.support.log_batches import (
    append,
    make_batch,
    open_log,
)


def test_delete_renames_and_then_removes(tmp_path: Path) -> None:
    class Later(InlineEnvironment):
        removed: ClassVar[list[tuple[str, int]]] = []

        def delete_later(self, paths: list[str], delay_ms: int) -> None:
            self.removed += [(path, delay_ms) for path in paths]

    environment = Later()
    log = open_log(tmp_path / "topic-0", environment=environment)
    append(log, make_batch(), epoch=0)
    log.closing.delete("0123456789abcdef0123456789abcdef")
    target = tmp_path / "topic-0.0123456789abcdef0123456789abcdef-delete"
    assert target.is_dir()
    assert not (tmp_path / "topic-0").exists()
    assert environment.removed == [(str(target), 60_000)]
