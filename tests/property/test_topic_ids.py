"""Topics come, go and come again under their names: each request reaches the topic that it names.

By its id or by its name, on the short way or not, in any order on one connection.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.hop.fetch import FetchedPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch, produce
from highwater.model.authorization import AllowAll
from highwater.model.ids import TopicId
from tests.support.controller_images import image_of, topic_state
from tests.unit.gateway.core.shape_frames import fetch_frame, produce_frame, topic_id_of
from tests.unit.gateway.data_plane.fetch_world import World

NAMES = ("a", "b")
GENERATIONS = 4

TOPICS = st.fixed_dictionaries({name: st.none() | st.booleans() for name in NAMES})
"""What becomes of each topic: None, it is deleted; True, made anew; False, it stays as it is."""

REQUESTS = st.tuples(
    st.sampled_from([*((0, v) for v in (9, 12, 13, 13)), *((1, v) for v in (11, 12, 13, 18, 18))]),
    st.sampled_from(NAMES),
    st.integers(0, GENERATIONS),
)
"""((API, version), the topic's name, and which of all topics that ever had this name)."""

STEPS = st.lists(st.one_of(TOPICS, REQUESTS, REQUESTS, REQUESTS), max_size=30)


def id_of(name, generation):
    return TopicId(topic_id_of(f"{name}, number {generation}"))


class Group:
    log_append_time_ms, log_start_offset, throttle_ms = -1, 0, 0


class Topics(World):
    """The world of fetches, with Produce; `present` has the generation of each topic there."""

    def __init__(self):
        super().__init__()
        self.produce = ProducePath(AllowAll()).start
        self.links[1].append = self.appended
        self.present = {}
        self.last = dict.fromkeys(NAMES, -1)
        self.reached = None
        self.follow({})

    def follow(self, changes):
        for name, change in changes.items():
            if change is None:
                self.present.pop(name, None)
            elif change and self.last[name] + 1 < GENERATIONS:
                self.last[name] += 1
                self.present[name] = self.last[name]
        self.routing.apply(
            image_of(
                topics=[
                    replace(topic_state(name, [(1,)]), topic_id=id_of(name, generation))
                    for name, generation in self.present.items()
                ]
            )
        )

    def appended(self, route, _acks, _batch, _nbytes, sink, index, _deadline_ms, _transaction):
        self.reached = route.topic_id
        sink.append_done(index, 7, Group(), None)

    def ask(self, key, version, name, generation):
        """(id of the topic that was reached or None, error code, the reply's topic)."""
        self.reached = None
        topic_id = id_of(name, generation)
        frame = (produce_frame if key == 0 else fetch_frame)(version, topic=name)
        named = topic_id_of(name)
        if version >= 13:
            at = frame.find(named)
            frame[at : at + 16] = topic_id
        self.send(frame)
        for work in list(self.links[1].works):
            (asked,) = work.partitions
            self.reached = asked[0]
            self.links[1].answer(FetchedPartition(0, 9, 9, 0))
        while self.due:
            self.due.pop(0)()
        sent, codec = b"".join(self.wire.sent), produce if key == 0 else fetch
        self.wire.sent.clear()
        flexible = version >= codec.FLEXIBLE_FROM
        (topic,) = codec.decode_response(sent, 9 if flexible else 8, version).responses
        (part,) = topic.partition_responses if key == 0 else topic.partitions
        told = topic.topic_id if version >= 13 else topic.name if key == 0 else topic.topic
        return self.reached, part.error_code, told


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_each_request_reaches_the_topic_that_it_names_or_none(steps):
    world = Topics()
    for step in steps:
        if isinstance(step, dict):
            world.follow(step)
            continue
        (key, version), name, generation = step
        there = world.present.get(name)
        reached, code, told = world.ask(key, version, name, generation)
        if version >= 13:
            found = there == generation
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
            assert told == id_of(name, generation)
        else:
            found = there is not None
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert told == name
        assert code == (0 if found else unknown)
        assert reached == (id_of(name, there) if found else None)
    world.session.connection_closed()
    assert world.shared.budget.used == 0
