"""Routes follow the image: a changed leader gets a new route, others keep theirs."""

from dataclasses import replace

import pytest

from highwater.gateway.core.produce_reply import reply_struct
from highwater.gateway.routing.brokers import FencedNode
from highwater.gateway.routing.table import RoutingTable
from highwater.model.cluster import ClusterDelta, GatewayState
from highwater.model.ids import DEFAULT_INSTANCE, GatewayId, InstanceId, NodeId, TopicId
from tests.support.controller_images import image_of, node_state, topic_state
from tests.support.looked_at import Looks, longest_step


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
    assert table.by_id(DEFAULT_INSTANCE, routes.state.topic_id) is routes
    assert table.topics_of(DEFAULT_INSTANCE).by_name[b"a"] is routes


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
    former_id = routes.state.topic_id
    again = replace(topic_state("a", [(2,)]), topic_id=TopicId(b"another-id-here!"))
    table.apply(image_of(topics=[again]))
    assert routes.gone
    assert table.by_id(DEFAULT_INSTANCE, former_id) is None
    assert live.find("a", former_id) is None, "the id counts, not the name"
    assert live.by_name[b"a"].partitions[0].topic_id == again.topic_id
    assert live.find("", again.topic_id) is live.by_name[b"a"]
    assert not live.by_name[b"a"].gone
    table.apply(image_of())
    assert (live.by_name, live.by_id) == ({}, {})


def test_instances_do_not_see_one_another(table):
    team = InstanceId("team")
    live = table.topics_of(team)
    theirs = replace(topic_state("a", [(2,)]), instance=team, topic_id=TopicId(b"another-id-here!"))
    ours = table.topic(DEFAULT_INSTANCE, "a")
    table.apply(image_of(topics=[ours.state, theirs]))
    assert live.by_name[b"a"].partitions[0].instance == team
    assert table.by_id(team, theirs.topic_id) is live.by_name[b"a"]
    assert table.by_id(DEFAULT_INSTANCE, theirs.topic_id) is None
    assert table.by_id(team, ours.state.topic_id) is None
    assert table.topic(DEFAULT_INSTANCE, "a") is ours


def test_added_and_removed_links(table, links):
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


def test_unheld_produce_goes_to_the_link(table):
    routes = table.topic(DEFAULT_INSTANCE, "a")
    assert [r.target for r in routes.partitions] == ["link 1", "link 2", None]


def test_produce_of_new_routes_is_held_and_moves_are_reported(links):
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


def test_epochs_shown_to_clients_are_kept_until_the_image_has_them(table):
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


def test_the_newest_known_revision_stays(links):
    table = RoutingTable(links.link_to)
    for revision, newest in ((0, 0), (7, 7), (5, 7), (8, 8)):
        table.note_revision(revision)
        assert table.newest_revision == newest


def crowd(count):
    """An image with `count` topics of two partitions each, led by node 1."""
    return image_of(topics=[topic_state(f"t{n}", [(1, 2), (1, 2)]) for n in range(count)])


def moved_in(image, names):
    """A delta that moves the first partition of these topics to node 2, and the new image."""
    partitions = {}
    for name in names:
        first = moved(image.topic(name), 0, 2).partitions[0]
        partitions[image.topic(name).topic_id] = (first,)
    delta = ClusterDelta(revision=image.revision + 1, partitions=partitions)
    return image.apply(delta), delta


def test_a_delta_touches_the_routes_that_it_names_and_no_others(links):
    image = crowd(3)
    table = RoutingTable(links.link_to)
    table.apply(image)
    untouched = [*table.topic(DEFAULT_INSTANCE, "t0").partitions]
    after, delta = moved_in(image, ["t1"])
    table.apply(after, delta)
    first, second = table.topic(DEFAULT_INSTANCE, "t1").partitions
    assert (first.leader, first.leader_epoch, second.leader) == (2, 6, 1)
    assert table.topic(DEFAULT_INSTANCE, "t0").partitions == untouched
    gone = ClusterDelta(
        revision=after.revision + 1, removed_topics=frozenset({after.topic("t1").topic_id})
    )
    table.apply(after.apply(gone), gone)
    assert table.topic(DEFAULT_INSTANCE, "t1") is None
    assert table.topic(DEFAULT_INSTANCE, "t2") is not None


def test_a_delta_and_the_whole_image_make_the_same_routes(links):
    image = crowd(40)
    tables = [RoutingTable(links.link_to), RoutingTable(links.link_to)]
    for table in tables:
        table.apply(image)
    for names in (["t3"], ["t3", "t7"], [f"t{n}" for n in range(0, 40, 2)]):
        image, delta = moved_in(image, names)
        tables[0].apply(image, delta)
        tables[1].apply(image)
        by_delta, whole = (
            [
                (r.topic_id, r.partition, r.leader, r.leader_epoch)
                for name in range(40)
                for r in table.topic(DEFAULT_INSTANCE, f"t{name}").partitions
            ]
            for table in tables
        )
        assert by_delta == whole


def test_clients_never_see_an_older_epoch_while_an_image_is_applied(links):
    """Routes are then ahead of the image, from which Metadata is answered (R17)."""
    image = crowd(200)
    table = RoutingTable(links.link_to)
    table.apply(image)
    after, delta = moved_in(image, [f"t{n}" for n in range(200)])
    steps = table.applying(after, delta)
    seen = 0
    for _ in steps:
        seen += 1
        route = table.topic(DEFAULT_INSTANCE, "t0").partitions[0]
        assert (route.leader_epoch, table.image) == (6, image)
        table.told(route, route.leader_epoch)
        assert table.ahead == {(route.topic_id, 0): 6}, "metadata wait for the image"
    assert seen > 1
    assert table.image is after
    assert table.ahead == {}


def test_moves_are_reported_at_every_step(links):
    table = RoutingTable(links.link_to, Hold())
    image = crowd(200)
    table.apply(image)
    table.take_changes()
    after, delta = moved_in(image, [f"t{n}" for n in range(200)])
    told = []
    for _ in table.applying(after, delta):
        moves, _gone = table.take_changes()
        held = [r for t in table.topics_of(DEFAULT_INSTANCE).by_name.values() for r in t.partitions]
        told += moves
        assert {id(route) for _, route in told} == {id(r) for r in held if r.leader == 2}
    told += table.take_changes()[0]
    assert len(told) == 200


WIDE = 10_000


def wide(partitions):
    return image_of([node_state(1), node_state(2)], [topic_state("wide", [(1,)] * partitions)])


def test_a_step_looks_at_a_part_of_a_wide_topic(links):
    table = RoutingTable(links.link_to)
    image = wide(WIDE)
    table.apply(image)
    after, _ = moved_in(image, ["wide"])
    looks = Looks()
    _, longest = longest_step(table.applying(looks.at(after)), lambda: looks.count)
    assert looks.count >= WIDE
    assert longest <= 1024
    assert table.topic(DEFAULT_INSTANCE, "wide").partitions[0].leader == 2


def test_a_topic_that_grows_is_never_seen_half_grown(links):
    table = RoutingTable(links.link_to)
    small, large = wide(2), wide(WIDE)
    table.apply(small)
    topic, looks = table.topic(DEFAULT_INSTANCE, "wide"), Looks()
    sizes = set()

    def looked():
        sizes.add(len(topic.partitions))
        return looks.count

    state = next(iter(large.topics.values()))
    grown = small.apply(ClusterDelta(revision=small.revision + 1, topics=(state,)))
    _, longest = longest_step(table.applying(looks.at(grown)), looked)
    assert longest <= 64, "each of them gets a new route"
    assert sizes == {2, WIDE}
    assert [route.partition for route in topic.partitions] == list(range(WIDE))


def test_a_step_finds_links_for_a_part_of_a_wide_topic(links):
    asked = 0

    def link_to(node):
        nonlocal asked
        asked += 1
        return links.link_to(node)

    table = RoutingTable(link_to)
    table.apply(wide(WIDE))
    asked = 0
    _, longest = longest_step(table.relinking(), lambda: asked)
    assert asked == WIDE
    assert longest <= 1024


def gateway(name, number):
    return GatewayState(
        gateway_id=GatewayId(name), host=name, port=9092, single_port=False, node_id=NodeId(number)
    )


def test_what_is_known_of_fenced_nodes(links):
    """The gateway of a node's process is remembered when it goes, and replaced when it is back."""
    table = RoutingTable(links.link_to)
    first, second = gateway("first", 1), gateway("second", 2)

    def apply(revision, fenced, *gateways):
        names = {one.node_id: one.gateway_id for one in gateways}
        table.apply(
            replace(
                image_of(nodes=[node_state(1, fenced=fenced), node_state(2)]),
                revision=revision,
                gateways={one.gateway_id: one for one in gateways},
                node_gateways={n: names.get(n, second.gateway_id) for n in (1, 2)},
            )
        )
        return dict(table.fenced)

    assert apply(1, False, first, second) == {}
    assert apply(2, True, second) == {1: FencedNode(2, first)}
    assert apply(3, True, second) == {1: FencedNode(2, first)}
    moved = replace(first, port=19_092)
    assert apply(4, True, moved, second) == {1: FencedNode(2, moved)}
    assert apply(5, False, moved, second) == {}
    table = RoutingTable(links.link_to)
    assert apply(6, True, second) == {1: FencedNode(-1, None)}, "nobody has told of its gateway"
