"""Runs steps to their end."""

from __future__ import annotations

from highwater.model.steps import Steps, finish


def counted(done: list[int]) -> Steps[str]:
    for number in range(3):
        done.append(number)
        yield
    return "all"


def test_all_steps_are_run_and_the_result_is_given() -> None:
    done: list[int] = []
    assert finish(counted(done)) == "all"
    assert done == [0, 1, 2]
