import pytest

from highwater.gateway.handling.admin_calls import (
    await_visible,
    call_timeout_s,
    duplicates,
    propagation_ms,
)
from tests.unit.gateway.handlers.fakes import Client, FakeBackend


@pytest.mark.parametrize(
    ("given", "used"), [(-1, 0), (0, 0), (500, 500), (30_000, 1_000), (2**31 - 1, 1_000)]
)
def test_propagation_is_bounded(given, used):
    assert propagation_ms(given) == used


def test_names_given_twice():
    assert duplicates(["a", "b", "a", "c", "a"]) == {"a"}
    assert duplicates([]) == frozenset()


async def test_the_wait_for_the_own_image_ends():
    backend = FakeBackend()
    context = Client(backend).context(19, 7)
    await await_visible(context, backend.image.revision)
    await await_visible(context, backend.image.revision + 1)
    assert call_timeout_s(context) == 2.0
