"""Splits requests that name several groups over their coordinators; results keep the order."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.coordinators import NOT_AVAILABLE, ask_coordinator, place_of

G = TypeVar("G")
R = TypeVar("R")


async def ask_coordinators(
    context: RequestContext,
    groups: Sequence[G],
    *,
    id_of: Callable[[G], str],
    encode: Callable[[list[G]], bytes],
    decode: Callable[[bytes], Sequence[R]],
    failed: Callable[[G, int], R],
) -> list[R]:
    """Results in the order of `groups`.

    Groups of the same partition of the group metadata topic share one call. `encode` makes a
    request for some of the groups; `decode` returns one result of the response for each of them,
    in order. If a coordinator cannot be asked, only its own groups fail.
    """
    results: dict[int, R] = {}
    by_partition: dict[int, list[int]] = {}
    for index, group in enumerate(groups):
        place = place_of(context, id_of(group))
        if place is None:
            results[index] = failed(group, NOT_AVAILABLE.error_code)
        else:
            by_partition.setdefault(place.partition, []).append(index)

    async def ask(indexes: list[int]) -> None:
        some = [groups[index] for index in indexes]
        deadline_ms = context.backend.settings.request_timeout_ms
        code, body = await ask_coordinator(context, id_of(some[0]), encode(some), deadline_ms)
        answers = [failed(group, code) for group in some] if code else decode(body)
        results.update(zip(indexes, answers, strict=True))

    async with asyncio.TaskGroup() as tasks:
        for indexes in by_partition.values():
            tasks.create_task(ask(indexes))
    return [results[index] for index in range(len(groups))]
