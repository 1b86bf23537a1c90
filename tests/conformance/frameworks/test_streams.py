"""Kafka Streams counts words: a store, its changelog, and a repartition topic that is purged.

Only with exactly_once_v2 is every count right after a failure; with at_least_once nothing is
forgotten, and what was being counted may be counted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.frameworks.committed_reader import CommittedReader
from tests.conformance.frameworks.word_count import PARTITIONS, WordCount, histories
from tests.support.cluster import Cluster, make_cluster
from tests.support.frameworks import FRAMEWORK_TIMEOUT_S

pytestmark = [pytest.mark.java, pytest.mark.timeout(5 * FRAMEWORK_TIMEOUT_S)]

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once_v2", "at_least_once"
LINES = 500


@pytest.fixture(scope="module", params=["embedded", "nodes3", "combined3"])
def broken(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A cluster of this module's own: its nodes are killed."""
    made = make_cluster(request.param, tmp_path_factory.mktemp(request.param))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def word_count(cluster: Cluster, directory: Path, guarantee: str) -> WordCount:
    return WordCount(
        cluster, directory, guarantee=guarantee, replication=min(3, len(cluster.nodes))
    )


def check_histories(reader: CommittedReader) -> None:
    """No count was taken back or told twice."""
    for word, counts in histories(reader.records).items():
        assert counts == sorted(set(counts)), word


def test_exactly_once(cluster: Cluster, tmp_path: Path) -> None:
    app = word_count(cluster, tmp_path, EXACTLY_ONCE)
    try:
        app.start()
        app.write(LINES)
        with CommittedReader(cluster.bootstrap, app.output, PARTITIONS) as reader:
            app.wait_for_counts(reader)
            app.wait_for_purge()
            app.wait_for_counts(reader)
            check_histories(reader)
    finally:
        app.stop()


@pytest.mark.full
@pytest.mark.parametrize("guarantee", [EXACTLY_ONCE, AT_LEAST_ONCE])
def test_every_node_is_killed_in_turn(broken: Cluster, tmp_path: Path, guarantee: str) -> None:
    """Among them leaders of each topic, and the coordinators of group and transactions."""
    exact = guarantee == EXACTLY_ONCE
    app = word_count(broken, tmp_path, guarantee)
    try:
        app.start()
        with CommittedReader(broken.bootstrap, app.output, PARTITIONS) as reader:
            for node in broken.nodes:
                app.write(LINES)
                app.wait_for_counts(reader, at_least=True)
                app.write(LINES)
                broken.kill_node(node.node_id)
                if len(broken.nodes) > 1:
                    app.write(LINES)
                broken.restart_node(node.node_id)
                app.write(LINES)
            app.wait_for_counts(reader, at_least=not exact)
            app.wait_for_purge()
            app.wait_for_counts(reader, at_least=not exact)
            if exact:
                check_histories(reader)
        assert app.process.stop() == 143, app.log_tail()
    finally:
        app.stop()


@pytest.mark.full
def test_a_killed_application_goes_on_elsewhere(broken: Cluster, tmp_path: Path) -> None:
    """Its successor has to fence it, restore the store from the changelog, and count on."""
    app = word_count(broken, tmp_path, EXACTLY_ONCE)
    try:
        app.start()
        with CommittedReader(broken.bootstrap, app.output, PARTITIONS) as reader:
            app.write(LINES)
            app.wait_for_counts(reader)
            app.write(4 * LINES)
            app.process.kill()
            app.start()
            app.write(LINES)
            app.wait_for_counts(reader)
            check_histories(reader)
    finally:
        app.stop()
