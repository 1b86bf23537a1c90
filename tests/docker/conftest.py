from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaException

from tests.docker import images
from tests.docker.clients import admin
from tests.docker.engine import Engine, NoEngineError, find_engine, skip_or_fail
from tests.docker.stack import HEALTHY_S, Stack, compose_command, wait_for


@pytest.fixture(scope="package")
def engine() -> Iterator[Engine]:
    """One for the stacks of all modules: its images take longer than a stack."""
    yield from _with(images.build)


@pytest.fixture(scope="module")
def spark_engine() -> Iterator[Engine]:
    """One of its own: Spark's image takes minutes, and an isolated engine cannot build."""
    yield from _with(images.build_with_spark)


def _with(build: Callable[[Engine], None]) -> Iterator[Engine]:
    with ExitStack() as owned:
        try:
            made = find_engine()
            owned.callback(made.close)
            compose_command(made.environment)  # Without it the images would be built in vain.
            build(made)
            made.isolate()
        except NoEngineError as error:
            skip_or_fail(error)
        yield made


@pytest.fixture(scope="module")
def stack(engine: Engine) -> Iterator[Stack]:
    """The whole stack, running: three nodes, two gateways."""
    yield from _running(engine, "compose.yaml")


@pytest.fixture(scope="module")
def nodes_stack(engine: Engine) -> Iterator[Stack]:
    """The whole stack, running: three nodes that are their own gateways."""
    yield from _running(engine, "compose.nodes.yaml")


@pytest.fixture(scope="module")
def spark_stack(spark_engine: Engine) -> Iterator[Stack]:
    """The whole stack, and a Spark cluster with two workers beside it."""
    yield from _running(spark_engine, "compose.yaml", "compose.spark.yaml")


def _running(engine: Engine, file: str, *overlays: str) -> Iterator[Stack]:
    made = Stack(engine, compose_command(engine.environment), file=file, overlays=overlays)
    try:
        made.up()
        wait_for(lambda: _serves(made), HEALTHY_S, made.describe)
        yield made
    finally:
        made.down()


def _serves(stack: Stack) -> bool:
    """Whether clients see all three nodes."""
    try:
        return len(admin(stack.bootstrap).list_topics(timeout=10).brokers) == 3
    except KafkaException:
        return False
