from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docker import images
from tests.docker.engine import Engine, NoEngineError, find_engine
from tests.docker.stack import Stack, compose_command


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    try:
        found = find_engine()
    except NoEngineError as error:
        pytest.skip(str(error))
    yield found
    found.close()


@pytest.fixture(scope="session")
def stack(engine: Engine) -> Iterator[Stack]:
    """The whole stack, running: three nodes, two gateways."""
    command = compose_command(engine)
    if command is None:
        pytest.skip("neither docker-compose nor docker's compose plugin is installed")
    try:
        images.build(engine)
    except NoEngineError as error:
        pytest.skip(str(error))
    made = Stack(engine, command)
    try:
        made.up()
        yield made
    finally:
        made.down()
