import resource

import pytest

from highwater.partition.storage.directory.handle_limits import (
    FILES_MIN,
    MAPS_MAX,
    MAPS_MIN,
    RESERVED_DESCRIPTORS,
    HandleLimits,
)


@pytest.mark.parametrize(
    ("soft", "files", "maps"),
    [(1 << 20, 524160, MAPS_MAX), (1024, 384, 96), (10, FILES_MIN, MAPS_MIN)],
)
def test_limits_follow_the_process(
    monkeypatch: pytest.MonkeyPatch, soft: int, files: int, maps: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    limits = HandleLimits.of_process()
    assert (limits.files, limits.maps) == (files, maps)
    assert limits.files + limits.maps <= max(soft - RESERVED_DESCRIPTORS, FILES_MIN + MAPS_MIN)


def test_directories_share_the_limits() -> None:
    assert HandleLimits(files=3000, maps=900).split(3) == HandleLimits(files=1000, maps=300)
    assert HandleLimits(files=100, maps=50).split(10) == HandleLimits(
        files=FILES_MIN, maps=MAPS_MIN
    )
