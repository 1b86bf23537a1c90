"""Fetch sessions as conversations (KIP-227): beginning, news only, forgetting, errors, the end."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import AllowAll
from tests.unit.gateway.data_plane.session_client import SessionWorld, found
from tests.unit.gateway.handlers.fakes import DenySome, a_topic

VERSIONS = pytest.mark.parametrize("version", [7, 11, 12, 13, 16, 18])
NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
WRONG_EPOCH = ErrorCode.INVALID_FETCH_SESSION_EPOCH


@pytest.fixture
def w():
    world = SessionWorld()
    yield world
    world.session.connection_closed()
    assert (world.session.outstanding, world.shared.budget.used) == (0, 0)


@VERSIONS
def test_only_news_are_told(w, version):
    session = w.begin(version, {0: 5, 3: 9})
    assert session == 1
    w.ask(version, session, 1)
    assert w.asked() == {0: 5, 3: 9}
    w.links[1].answer(found(), found())
    assert w.told(version) == (0, session, [])
    w.ask(version, session, 2)
    w.links[1].answer(found(), found(12, b"records"))
    assert w.told(version) == (0, session, [(3, 0, 12, b"records")])
    w.ask(version, session, 3, {3: 12})
    assert w.asked() == {0: 5, 3: 12}
    w.links[1].answer(found(10), found(12))
    assert w.told(version) == (0, session, [(0, 0, 10, b"")])


@VERSIONS
def test_partitions_come_and_go(w, version):
    session = w.begin(version, {0: 5})
    w.ask(version, session, 1, {3: 7})
    w.links[1].answer(found(), found(8))
    assert w.told(version)[2] == [(3, 0, 8, b"")], "a new one is told"
    w.ask(version, session, 2, forget=[0])
    assert w.asked() == {3: 7}
    w.links[1].answer(found(9))
    assert w.told(version) == (0, session, [(3, 0, 9, b"")])
    assert w.cache.partitions == 1


@VERSIONS
def test_a_session_without_partitions_ends(w, version):
    session = w.begin(version, {0: 5})
    w.ask(version, session, 1, forget=[0])
    assert w.told(version) == (0, 0, [])
    assert len(w.cache) == 0
    w.ask(version, session, 2)
    assert w.told(version) == (NOT_FOUND, 0, [])


@VERSIONS
@pytest.mark.parametrize("wrong", [1, 3, 2**31 - 1, -2])
def test_fetches_out_of_order_are_refused(w, version, wrong):
    session = w.begin(version, {0: 5, 3: 5})
    w.ask(version, session, 1)
    w.links[1].answer(found(), found())
    w.told(version)
    w.ask(version, session, wrong, {0: 77})
    assert w.told(version) == (WRONG_EPOCH, 0, [])
    w.ask(version, session, 2)
    assert w.asked() == {0: 5, 3: 5}, "the refused one has changed nothing"
    w.links[1].answer(found(), found())
    assert w.told(version) == (0, session, [])
    assert w.shared.meters.fetch.errors == {WRONG_EPOCH: 1}


@pytest.mark.parametrize("version", [7, 18])
def test_names_and_ids_are_not_mixed(w, version):
    other = 13 if version < 13 else 12
    session = w.begin(version, {0: 5})
    w.ask(other, session, 1)
    assert w.told(other) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0, [])
    w.ask(version, session, 1)
    w.links[1].answer(found())
    assert w.told(version) == (0, session, [])


@VERSIONS
@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session_that_it_names(w, version, epoch):
    first = w.begin(version, {0: 5})
    w.ask(version, first, epoch, {3: 5})
    w.links[1].answer(found())
    code, session, told = w.told(version)
    assert (code, told) == (0, [(3, 0, 9, b"")])
    assert session == (2 if epoch == 0 else 0)
    w.ask(version, first, 1)
    assert w.told(version) == (NOT_FOUND, 0, [])


def test_clients_close_their_session_with_a_fetch_of_nothing(w):
    session = w.begin(12, {0: 5})
    w.ask(12, session, -1)
    assert w.told(12) == (0, 0, [])
    assert len(w.cache) == 0


@pytest.mark.parametrize("version", [4, 5, 6])
def test_versions_without_sessions_get_none(w, version):
    w.ask(version, 0, -1, {0: 5})
    w.links[1].answer(found())
    w.told(version)
    assert len(w.cache) == 0


def test_no_session_without_room(w):
    w.authorize(AllowAll(), slots=0)
    for _ in range(3):
        w.ask(12, 0, 0, {0: 5})
        w.links[1].answer(found())
        assert w.told(12) == (0, 0, [(0, 0, 9, b"")])


def test_replicas_get_no_session(w):
    w.ask(12, 0, 0, {0: 5}, replica_id=2)
    code, session, told = w.told(12)
    assert (code, session, told[0][1]) == (0, 0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert len(w.cache) == 0


def test_sessions_belong_to_a_principal(w):
    session = w.begin(12, {0: 5})
    client = w.session.client
    for other in (("User", "eve"),):
        requester, client.requester = client.requester, client.requester._replace(principal=other)
        w.ask(12, session, 1)
        assert w.told(12) == (NOT_FOUND, 0, [])
        client.requester = requester
    w.ask(12, session, 1)
    w.links[1].answer(found())
    assert w.told(12) == (0, session, [])


@VERSIONS
def test_partitions_that_no_node_leads_are_told_each_time(w, version):
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    session = w.begin(version, {0: 5, 2: 5, 77: 5})
    for epoch in (1, 2):
        w.ask(version, session, epoch)
        assert w.links[1].works[0].max_wait_ms == 0, "an error does not wait"
        w.links[1].answer(found())
        code, _, told = w.told(version)
        assert code == 0
        assert [t[:2] for t in told] == [(2, ErrorCode.NOT_LEADER_OR_FOLLOWER), (77, gone)]
    w.apply_topics(orders=[(1,), (2,), (1,), (1,)])
    w.ask(version, session, 3, forget=[77])
    assert w.asked() == {0: 5, 2: 5}
    w.links[1].answer(found(), found())
    assert w.told(version)[2] == [(2, 0, 9, b"")], "the leader is there again"


@VERSIONS
def test_a_partition_that_moves_is_asked_of_its_new_leader(w, version):
    session = w.begin(version, {0: 5, 3: 5})
    w.apply_topics(orders=[(1,), (2,), (3,), (2,)])
    w.ask(version, session, 1)
    assert (w.asked(1), w.asked(2)) == ({0: 5}, {3: 5})
    for _ in range(2):
        w.links[1].answer(found())
        w.links[2].answer(found(11))
    assert w.told(version) == (0, session, [(3, 0, 11, b"")])


def test_authorization_is_asked_for_at_each_fetch(w):
    denying = DenySome()
    w.authorize(denying, slots=1)
    session = w.begin(12, {0: 5, 3: 5})
    denying.denied = {(AclOperation.READ, a_topic("orders"))}
    w.ask(12, session, 1)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [t[:2] for t in w.told(12)[2]] == [(0, denied), (3, denied)]
    denying.denied.clear()
    w.ask(12, session, 2)
    w.links[1].answer(found(), found())
    assert [t[:2] for t in w.told(12)[2]] == [(0, 0), (3, 0)], "allowed again"


def test_a_session_that_is_evicted_ends_its_fetch(w):
    w.authorize(AllowAll(), slots=1, eviction_ms=-1)
    session = w.begin(12, {0: 5, 3: 5})
    w.ask(12, session, 1)
    w.links[1].works.pop()
    w.shared.now_ms += 1
    first = w.connect()
    assert w.begin(12, {0: 5}) == session + 1
    w.session.connection_closed()
    w.use(first)
    assert w.told(12)[0] == WRONG_EPOCH
    w.ask(12, session, 2)
    assert w.told(12) == (NOT_FOUND, 0, [])
