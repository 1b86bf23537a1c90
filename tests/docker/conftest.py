from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.docker import images
from tests.docker.engine import NoEngineError, find_engine, skip_or_fail
from tests.docker.stack import Stack, compose_command


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The whole stack, running: three nodes, two gateways."""
    yield from _running("compose.yaml")


@pytest.fixture(scope="module")
def nodes_stack() -> Iterator[Stack]:
    """The whole stack, running: three nodes that are their own gateways."""
    yield from _running("compose.nodes.yaml")


def _running(file: str) -> Iterator[Stack]:
    with ExitStack() as owned:
        try:
            engine = find_engine()
            owned.callback(engine.close)
            command = compose_command(engine.environment)
            images.build(engine)
            engine.isolate()
        except NoEngineError as error:
            skip_or_fail(error)
        made = Stack(engine, command, file=file)
        if engine.keeps:
            owned.callback(made.down)
        made.up()
        yield made
