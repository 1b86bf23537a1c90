"""Memory that is resident only after it is written, and otherwise an ordinary bytearray."""

import pytest

from highwater.model.uncleared_memory import uncleared
from tests.support.resident_memory import LINUX_ONLY, resident

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 65_537, MIB, 5 * MIB + 1])
def test_uncleared_memory_is_a_bytearray_of_that_size(size):
    memory = uncleared(size)
    assert type(memory) is bytearray
    assert len(memory) == size
    content = bytes(i * 7 % 251 for i in range(251)) * (size // 251 + 1)
    memory[:] = content[:size]
    assert memory == content[:size]
    memory += b"more"
    assert memory.endswith(b"more")


@LINUX_ONLY
def test_uncleared_memory_is_resident_only_where_written():
    before = resident()
    memory = uncleared(100 * MIB)
    assert resident() - before < 8 * MIB  # Two huge pages at most.
    memory[: 50 * MIB] = b"x" * (50 * MIB)
    assert resident() - before > 45 * MIB
