"""One link per node and incarnation, opened and closed by the image."""

import asyncio
from dataclasses import replace

import pytest

from highwater.gateway.routing.node_links import NodeLinks
from highwater.model.steps import finish
from tests.support.controller_images import image_of, node_state


class Link:
    def __init__(self, state):
        self.state = state
        self.node_id = state.node_id
        self.closed = 0
        self.takes_appends = True
        self.open_segment_files = 0
        self.groups_sent = 0
        self.fetches_sent = 0
        self.expired = []
        self.fenced = False
        self.waits = 0
        self.all = []
        self.seen = []

    def set_fenced(self, fenced):
        self.fenced = fenced

    def ending_waits(self):
        self.seen = [link.fenced for link in self.all]
        while self.waits and self.fenced:
            self.waits -= 1
            yield

    def expire(self, now_ms):
        self.expired.append(now_ms)

    async def close(self):
        self.closed += 1


@pytest.fixture
def opened():
    return []


@pytest.fixture
async def links(opened):
    def open_link(state):
        opened.append(Link(state))
        return opened[-1]

    failures = []
    made = NodeLinks(open_link, lambda *failure: failures.append(failure))
    yield made
    await made.close()
    assert failures == []


async def test_nodes_that_are_not_fenced_get_links(links, opened):
    image = image_of([node_state(1), node_state(2, fenced=True)])
    assert links.apply(image)
    assert [link.node_id for link in opened] == [1]
    assert links.link_to(1) is opened[0]
    assert links.link_to(2) is None
    assert not links.apply(image), "nothing changed"


async def test_a_link_lives_through_fencing(links, opened):
    links.apply(image_of([node_state(1)]))
    assert not links.apply(image_of([node_state(1, fenced=True)]))
    assert links.link_to(1) is opened[0]


async def test_links_learn_of_fencing_on_request(links, opened):
    links.apply(image_of([node_state(1), node_state(2)]))
    links.apply(image_of([node_state(1, fenced=True), node_state(2)]))
    assert [link.fenced for link in opened] == [False, False], "routes come first"
    finish(links.routes_following())
    assert [link.fenced for link in opened] == [True, False]
    links.apply(image_of([node_state(1), node_state(2)]))
    finish(links.routes_following())
    assert [link.fenced for link in opened] == [False, False]


async def test_open_files_of_all_nodes_are_counted(links, opened):
    assert links.open_segment_files == 0
    links.apply(image_of([node_state(1), node_state(2)]))
    opened[0].open_segment_files, opened[1].open_segment_files = 3, 4
    assert links.open_segment_files == 7


async def test_a_new_incarnation_gets_a_new_link(links, opened):
    links.apply(image_of([node_state(1)]))
    assert links.apply(image_of([replace(node_state(1), incarnation="next")]))
    first, second = opened
    assert links.link_to(1) is second
    await asyncio.sleep(0.01)
    assert first.closed == 0, "what is on its way there may still be taken back"
    finish(links.routes_following())
    await asyncio.sleep(0.01)
    assert (first.closed, second.closed) == (1, 0)


async def test_a_removed_node_loses_its_link(links, opened):
    links.apply(image_of([node_state(1), node_state(2)]))
    assert links.apply(image_of([node_state(2)]))
    assert links.link_to(1) is None
    finish(links.routes_following())
    await asyncio.sleep(0.01)
    assert [link.closed for link in opened] == [1, 0]
    links.expire(77)
    assert [link.expired for link in opened] == [[], [77]]


async def test_no_answers_are_awaited_from_closed_fenced_or_expired_links(links, opened):
    links.apply(image_of([node_state(1), node_state(2)]))
    first, second = opened
    assert not links.is_lost(first)
    first.takes_appends = False
    assert links.is_lost(first)
    first.takes_appends = True
    links.apply(image_of([node_state(1, fenced=True), replace(node_state(2), incarnation="next")]))
    assert links.is_lost(first)
    assert links.is_lost(second)
    assert not links.is_lost(opened[2])


async def test_a_local_node_needs_no_other_link(links, opened):
    local = Link(node_state(1))
    links.add_local(local)
    assert not links.apply(image_of([node_state(1)]))
    assert links.link_to(1) is local
    assert opened == []


async def test_close_closes_all(links, opened):
    links.apply(image_of([node_state(1), node_state(2)]))
    await links.close()
    assert [link.closed for link in opened] == [1, 1]
    assert links.link_to(1) is None


async def test_what_went_to_links_that_are_closed_stays_counted(links, opened):
    links.apply(image_of([node_state(1), node_state(2)]))
    opened[0].groups_sent, opened[1].groups_sent = 3, 4
    opened[0].fetches_sent, opened[1].fetches_sent = 5, 6

    def sent():
        return links.groups_sent, links.fetches_sent

    assert sent() == (7, 11)
    links.apply(image_of([node_state(2)]))
    assert sent() == (7, 11), "between the image and the end of the link"
    finish(links.routes_following())
    assert sent() == (7, 11)
    await links.close()
    assert sent() == (7, 11)


async def test_a_member_in_this_process_is_fenced_but_never_opened_or_replaced(links, opened):
    member = Link(node_state(1))
    links.add_member(member)
    links.apply(image_of([node_state(1), node_state(2)]))
    assert [link.node_id for link in opened] == [2]
    assert links.link_to(1) is member
    assert not links.is_lost(member)
    links.apply(image_of([replace(node_state(1), incarnation="other", fenced=True)]))
    finish(links.routes_following())
    assert links.link_to(1) is member
    assert (member.fenced, links.is_lost(member)) == (True, True)
    links.apply(image_of([node_state(1)]))
    finish(links.routes_following())
    assert (member.fenced, links.is_lost(member)) == (False, False)
    links.expire(5)
    assert member.expired == [5]
    member.takes_appends = False
    assert links.is_lost(member)
    await links.close()
    assert member.closed == 1


async def test_waits_for_fenced_nodes_end_in_steps_after_all_were_fenced(links, opened):
    links.apply(image_of([node_state(1), node_state(2), node_state(3)]))
    again = replace(node_state(2), incarnation="again")
    links.apply(image_of([node_state(1, fenced=True), again, node_state(3)]))
    for link in opened:
        link.waits, link.all = 3, opened[:3]
    steps = links.routes_following()
    left = []
    for _ in steps:
        await asyncio.sleep(0)
        left.append([link.waits for link in opened[:3]])
        assert opened[1].closed == 0, "not while something waits for it"
    assert [link.seen for link in opened[:2]] == [[True, True, False]] * 2
    assert left == [[3, 2, 3], [3, 1, 3], [3, 0, 3], [2, 0, 3], [1, 0, 3], [0, 0, 3]]
    await asyncio.sleep(0)
    assert [link.closed for link in opened] == [0, 1, 0, 0]


async def test_steps_that_are_given_up_are_taken_after_the_next_image(links, opened):
    links.apply(image_of([node_state(1), node_state(2)]))
    links.apply(image_of([node_state(2)]))
    opened[0].waits = 2
    steps = links.routes_following()
    next(steps)
    steps.close()
    await asyncio.sleep(0)
    assert (opened[0].fenced, opened[0].waits, opened[0].closed) == (True, 1, 0)
    links.apply(image_of([node_state(2)]))
    finish(links.routes_following())
    await asyncio.sleep(0)
    assert (opened[0].waits, opened[0].closed) == (0, 1)


async def test_a_link_that_is_replaced_between_steps_waits_for_the_next_ones(links, opened):
    links.apply(image_of([node_state(1), node_state(2)]))
    links.apply(image_of([node_state(2)]))
    opened[0].waits = 1
    steps = links.routes_following()
    next(steps)
    links.apply(image_of([replace(node_state(2), incarnation="next")]))
    finish(steps)
    await asyncio.sleep(0)
    assert [link.closed for link in opened] == [1, 0, 0], "routes may still name it"
    finish(links.routes_following())
    await asyncio.sleep(0)
    assert [link.closed for link in opened] == [1, 1, 0]
