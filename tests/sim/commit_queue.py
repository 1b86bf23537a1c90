"""Appends with acks=all that wait for the high watermark, in the order of their offsets."""

from collections import deque
from typing import Generic, TypeVar

W = TypeVar("W")


class CommitQueue(Generic[W]):
    """Which append waits for which offset at one leader. Memory budgets of the gateways bound it."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, W]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, required_offset: int, waiter: W) -> None:
        """`waiter` is acknowledged when the high watermark is at least `required_offset`.

        Offsets come in ascending order; a repeated batch of an idempotent producer may ask for
        less than the one before it and is then acknowledged together with that.
        """
        if self._waiting and self._waiting[-1][0] > required_offset:
            required_offset = self._waiting[-1][0]
        self._waiting.append((required_offset, waiter))

    def reached(self, high_watermark: int) -> list[W]:
        """Takes out those whose records are committed."""
        waiting = self._waiting
        done = []
        while waiting and waiting[0][0] <= high_watermark:
            done.append(waiting.popleft()[1])
        return done

    def abandon(self) -> list[W]:
        """Takes out all: this leader will not commit them, the next one may."""
        given_up = [waiter for _, waiter in self._waiting]
        self._waiting.clear()
        return given_up
