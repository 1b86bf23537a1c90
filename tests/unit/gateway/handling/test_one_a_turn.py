"""Long answers are computed one per loop turn."""

import asyncio

from highwater.gateway.handling.one_a_turn import OneATurn


async def _turns(gate: OneATurn, calls: int) -> list[tuple[int, int]]:
    """(call, turn of the loop in which it ran) for calls that come at once."""
    turn = 0
    made: list[tuple[int, int]] = []

    async def call(number: int) -> None:
        async with gate:
            made.append((number, turn))

    tasks = [asyncio.ensure_future(call(number)) for number in range(calls)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        turn += 1
    return made


async def test_one_call_per_turn_in_order() -> None:
    made = await _turns(OneATurn(), 20)
    assert [number for number, _ in made] == list(range(20))
    turns = [turn for _, turn in made]
    assert len(set(turns)) == 20
    assert turns[-1] < 100, "nobody waits for more than a few turns"


async def test_a_call_that_fails_or_is_cancelled_lets_the_next_one_in() -> None:
    gate = OneATurn()

    async def fail() -> None:
        async with gate:
            raise ValueError

    async def wait() -> None:
        async with gate:
            await asyncio.sleep(10)

    results = await asyncio.gather(fail(), fail(), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError]
    first, second = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
    await asyncio.sleep(0.01)
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert await _turns(gate, 3)
