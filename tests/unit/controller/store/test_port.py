"""How changes are cut into transactions."""

from highwater.controller.store.port import (
    OPERATIONS_MAX,
    TXN_BYTES_MAX,
    Delete,
    DeletePrefix,
    Operation,
    Put,
    chunks,
)


def test_nothing() -> None:
    assert list(chunks([])) == []


def test_order_and_number() -> None:
    deletions: list[Operation] = [Delete(key=f"{n}") for n in range(2 * OPERATIONS_MAX + 1)]
    cut = list(chunks(deletions))
    assert [len(chunk) for chunk in cut] == [OPERATIONS_MAX, OPERATIONS_MAX, 1]
    assert [operation for chunk in cut for operation in chunk] == deletions


def test_bytes() -> None:
    half = bytes(TXN_BYTES_MAX // 2 - 1)
    changes: list[Operation] = [
        Put(key="a", value=half),
        Put(key="b", value=half),
        DeletePrefix(prefix="c"),
        Put(key="d", value=bytes(2 * TXN_BYTES_MAX)),
        Delete(key="e"),
    ]
    assert [len(chunk) for chunk in chunks(changes)] == [2, 1, 1, 1], "d is too large for any"
