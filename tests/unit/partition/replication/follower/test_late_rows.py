"""Rows that a slow disk has not written yet: limited, and resumed once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from highwater.partition.replication.follower.late_rows import LateRows


class Node:
    def __init__(self) -> None:
        self.resumed: list[Any] = []
        self.flushes: list[tuple[Any, Any]] = []
        self.late = LateRows(
            resume=self.resumed.append,
            flush=lambda log, done: self.flushes.append((log, done)),
            bytes_max=100,
        )


def replica() -> Any:
    made = SimpleHashable(log=object(), flushed=0)
    made.log_end_moved = lambda: setattr(made, "flushed", made.flushed + 1)
    return made


class SimpleHashable(SimpleNamespace):
    __hash__ = object.__hash__


def test_too_many_bytes_are_not_admitted_but_one_row_always_is() -> None:
    node = Node()
    a, b, c = replica(), replica(), replica()
    assert node.late.admit(a, 500)
    assert not node.late.admit(b, 1)
    assert (a in node.late, b in node.late, node.late.nbytes) == (True, False, 500)
    node.late.end(a)
    assert node.resumed == [a]
    assert node.late.admit(b, 60)
    assert node.late.admit(c, 40)
    assert not node.late.admit(a, 1)
    assert (len(node.late), node.late.nbytes) == (2, 100)


def test_a_removed_replica_releases_its_bytes() -> None:
    node = Node()
    a = replica()
    node.late.admit(a, 70)
    node.late.leave(a)
    node.late.leave(a)
    assert (len(node.late), node.late.nbytes, node.resumed) == (0, 0, [])


def test_a_flush_keeps_a_replica_late() -> None:
    node = Node()
    a = replica()
    node.late.flush(a)
    assert a in node.late
    ((log, done),) = node.flushes
    assert log is a.log
    done()
    assert a not in node.late
    assert node.resumed == [a]
    assert a.flushed == 1, "before it goes on"
