"""Fetch sets over a real stream: only changes are named, and both ends forget a set together."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.steps import finish
from tests.support.log_batches import make_batch
from tests.unit.gateway.clients.partition_node import until
from tests.unit.partition.data_plane.node import ask
from tests.unit.partition.data_plane.test_fetch_sets import SetClient


@pytest.fixture
async def link(open_link):
    made = open_link()
    await until(lambda: made._fetch.stream.is_open)
    return made


@pytest.fixture
def client(node, link):
    made = SetClient(node, range(2))
    made.send = link.fetch
    return made


async def told(client, **spec):
    client.fetch(**spec)
    await until(lambda: client.answers)
    return client.told


def waiters(node):
    return len(node.plane.replicas[ask(0).topic_id, 0].waiters.fetches)


async def test_only_news_are_answered(node, client):
    assert set(await told(client, max_wait_ms=0)) == {0, 1}
    assert await told(client, max_wait_ms=0) == {}
    client.fetch(max_wait_ms=30_000)
    await until(lambda: node.plane.waiting_fetches == 1)
    node.append(make_batch(), partition=1)
    await until(lambda: client.answers)
    ((place, (code, end, nbytes)),) = client.told.items()
    assert (place, code, nbytes) == (1, 0, len(make_batch()))
    client.set.update(1, ask(end, 1))
    client.set.drop(0)
    assert await told(client, max_wait_ms=0) == {1: (0, end, 0)}
    assert waiters(node) == 0


async def test_a_set_that_ends_is_forgotten_by_the_node(node, link, client):
    await told(client, max_wait_ms=0)
    assert waiters(node) == 1
    link.end_fetch_set(client.set)
    await until(lambda: not waiters(node))
    assert set(await told(client, max_wait_ms=0)) == {0, 1}


async def test_a_broken_stream_forgets_all_sets(node, link, client):
    await told(client, max_wait_ms=0)
    client.fetch(max_wait_ms=30_000)
    await until(lambda: node.plane.waiting_fetches == 1)
    await node.kill()
    await until(lambda: client.answers)
    assert [t[0] for t in client.told.values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert waiters(node) == 0
    await node.start()
    await until(lambda: link._fetch.stream.is_open)
    assert {p: t[0] for p, t in (await told(client, max_wait_ms=0)).items()} == {0: 0, 1: 0}


async def test_a_fenced_node_forgets_all_sets(node, link, client):
    await told(client, max_wait_ms=0)
    client.fetch(max_wait_ms=30_000)
    await until(lambda: node.plane.waiting_fetches == 1)
    link.set_fenced(True)
    finish(link.ending_waits())
    assert [t[0] for t in client.told.values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    await until(lambda: not waiters(node))
    link.set_fenced(False)
    assert set(await told(client, max_wait_ms=0)) == {0, 1}
