"""Routes follow the image: new ones where the leader changed, the same ones elsewhere."""

from dataclasses import replace

import pytest

from highwater.gateway.core.produce_reply import reply_struct
from highwater.gateway.routing.table import RoutingTable
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, TopicId
from tests.support.controller_images import image_of, topic_state


class Links:
    """A link is a name in these tests."""

    def __init__(self):
        self.names = {1: "link 1", 2: "link 2"}

    def link_to(self, node):
        return self.names.get(node)


@pytest.fixture
def links():
    return Links()


@pytest.fixture
def table(links):
    made = RoutingTable(links.link_to)
    made.apply(image_of(topics=[topic_state("a", [(1, 2), (2, 1), (3,)])]))
    return made


def moved(topic, partition, leader):
    states = list(topic.partitions)
    states[partition] = replace(
        states[partition], leader=leader, leader_epoch=states[partition].leader_epoch + 1
    )
    return replace(topic, partitions=tuple(states))


def test_routes_name_leader_epoch_and_link(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    assert [(r.partition, r.leader, r.leader_epoch, r.link) for r in routes.partitions] == [
        (0, 1, 5, "link 1"),
        (1, 2, 5, "link 2"),
        (2, 3, 5, None),
    ]
    assert table.by_id(routes.state.topic_id) is routes
    assert table.topics_of(DEFAULT_INSTANCE)[b"a"] is routes


def test_a_new_leader_gets_a_new_route_and_others_keep_theirs(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    before = list(routes.partitions)
    before[0].open_group = before[1].open_group = "a group that gathers"
    table.apply(image_of(topics=[moved(routes.state, 0, 2)]))
    assert table.topic(DEFAULT_INSTANCE, "a") is routes, "shapes and sessions hold it"
    assert not routes.gone
    first, second, third = routes.partitions
    assert first is not before[0]
    assert (first.leader, first.leader_epoch, first.link) == (2, 6, "link 2")
    assert first.open_group is None
    assert (second, third) == (before[1], before[2])


def test_the_same_leader_in_a_new_epoch_is_a_new_route(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    before = routes.partitions[0]
    table.apply(image_of(topics=[moved(routes.state, 0, 1)]))
    assert routes.partitions[0] is not before
    assert routes.partitions[0].leader_epoch == 6


def test_more_partitions(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    before = list(routes.partitions)
    table.apply(image_of(topics=[topic_state("a", [(1, 2), (2, 1), (3,), (1,)])]))
    assert routes.partitions[:3] == before
    assert routes.partitions[3].link == "link 1"


def test_a_topic_that_is_deleted_and_one_that_is_made_anew(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    live = table.topics_of(DEFAULT_INSTANCE)
    again = replace(topic_state("a", [(2,)]), topic_id=TopicId(b"another-id-here!"))
    table.apply(image_of(topics=[again]))
    assert routes.gone
    assert table.by_id(routes.state.topic_id) is None
    assert live[b"a"].partitions[0].topic_id == again.topic_id
    assert not live[b"a"].gone
    table.apply(image_of())
    assert live == {}


def test_instances_do_not_see_one_another(table):
    team = InstanceId("team")
    live = table.topics_of(team)
    theirs = replace(topic_state("a", [(2,)]), instance=team, topic_id=TopicId(b"another-id-here!"))
    ours = table.topic(DEFAULT_INSTANCE, "a")
    table.apply(image_of(topics=[ours.state, theirs]))
    assert live[b"a"].partitions[0].instance == team
    assert table.topic(DEFAULT_INSTANCE, "a") is ours


def test_links_that_come_and_go(table, links):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    before = list(routes.partitions)
    links.names = {3: "link 3"}
    table.relink()
    assert [r.link for r in routes.partitions] == [None, None, "link 3"]
    assert routes.partitions == before


def test_reply_layouts_are_made_once(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    assert routes.reply_struct(9) is routes.reply_struct(9)
    assert routes.reply_struct(3).size == reply_struct(3, 1).size


class Hold:
    def append(self, *_):
        raise AssertionError("nothing is sent in these tests")


def test_produce_goes_to_the_link_where_nothing_holds_it(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    assert [r.target for r in routes.partitions] == ["link 1", "link 2", None]


def test_produce_of_new_routes_is_held_and_moves_are_told(links):
    hold = Hold()
    table = RoutingTable(links.link_to, hold)
    table.apply(image_of(topics=[topic_state("a", [(1, 2), (2, 1), (3,)])]))
    routes = table.topic(DEFAULT_INSTANCE, "a")
    assert {r.target for r in routes.partitions} == {hold}
    assert table.take_changes() == ([], [])
    for route in routes.partitions:
        route.target = route.link
    table.apply(image_of(topics=[moved(routes.state, 0, 2)]))
    links.names = {2: "another link 2", 3: "link 3"}
    table.relink()
    first, second, third = routes.partitions
    assert table.take_changes() == (
        [("link 1", first), ("link 2", first), ("link 2", second), (None, third)],
        [],
    )
    assert (first.target, second.target, third.target) == (hold, hold, hold)
    assert table.take_changes() == ([], [])
    table.relink()
    assert table.take_changes() == ([], [])
    table.apply(image_of())
    assert table.take_changes() == ([], [routes.state.topic_id])


def test_a_route_by_the_topic_s_id(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    topic_id = routes.state.topic_id
    assert table.route(topic_id, 1) is routes.partitions[1]
    assert table.route(topic_id, 3) is table.route(topic_id, -1) is None
    assert table.route(TopicId(b"another-id-here!"), 0) is None


def test_epochs_that_were_told_are_remembered_until_the_image_has_them(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    first, second, _ = routes.partitions
    topic_id = routes.state.topic_id
    table.told(first, 5)
    assert table.ahead == {}, "the image says so itself"
    table.told(first, 7)
    table.told(first, 6)
    table.told(second, 6)
    assert table.ahead == {(topic_id, 0): 7, (topic_id, 1): 6}
    one = moved(moved(routes.state, 0, 2), 1, 1)
    table.apply(image_of(topics=[one]))
    assert table.ahead == {(topic_id, 0): 7}
    table.apply(image_of(topics=[moved(one, 0, 1)]))
    assert table.ahead == {}
    table.told(routes.partitions[0], 9)
    table.apply(image_of())
    assert table.ahead == {}, "the topic is gone"


def test_the_newest_revision_that_was_heard_of_stays(links):
    table = RoutingTable(links.link_to)
    for revision, newest in ((0, 0), (7, 7), (5, 7), (8, 8)):
        table.heard_of(revision)
        assert table.newest_revision == newest
