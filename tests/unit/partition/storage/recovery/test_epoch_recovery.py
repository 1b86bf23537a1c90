from pathlib import Path

import pytest

from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.recovery.epoch_recovery import read_epochs, rebuild_epochs
from tests.support.log_batches import append, make_batch, open_log

FILES = FileSystem()


@pytest.mark.parametrize(
    ("content", "entries"),
    [
        (b"0\n2\n0 0\n3 7\n", [(0, 0), (3, 7)]),
        (b"0\n0\n", None),
        (b"", None),
        (b"0\n2\n3 7\n0 0\n", None),
        (b"no checkpoint", None),
        (None, None),
    ],
)
def test_a_checkpoint_without_entries_tells_nothing(
    tmp_path: Path, content: bytes | None, entries: list[tuple[int, int]] | None
) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    if content is not None:
        path.write_bytes(content)
    epochs, known = read_epochs(FILES, str(path))
    assert (epochs.entries(), known) == (entries or [], entries is not None)


def test_epochs_are_rebuilt_from_the_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    for epoch in (0, 0, 2, 5, 5):
        append(log, make_batch(), make_batch(), epoch=epoch)
        if epoch:
            log.roll()
    assert rebuild_epochs(FILES, log.extent.all).entries() == [(0, 0), (2, 4), (5, 6)]
