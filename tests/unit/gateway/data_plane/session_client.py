"""A client of fetch sessions, as a conversation: what it asks, what nodes get, what it is told."""

from highwater.gateway.core.session import Session
from highwater.hop.fetch import FetchedPartition
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import fetch
from highwater.model.authorization import AllowAll
from tests.support.controller_images import image_of, topic_state
from tests.unit.gateway.core.session_world import Wire
from tests.unit.gateway.core.shape_frames import topic_id_of
from tests.unit.gateway.data_plane.fetch_world import World


class SessionWorld(World):
    """Sessions have room; topic `many` has 6 partitions on node 1 and one on each other node."""

    def __init__(self, **settings):
        super().__init__()
        self.topics = {
            "orders": [(1,), (2,), (3,), (1,)],
            "many": [(1,)] * 6 + [(2,), (3,)],
        }
        self.apply_topics()
        self.authorize(AllowAll(), slots=10, **settings)

    def apply_topics(self, **changes):
        self.topics |= changes
        states = [topic_state(name, replicas) for name, replicas in self.topics.items()]
        self.routing.apply(image_of(topics=states))

    def connect(self):
        """Another connection of the same client; the first one can be used again as `use` says."""
        before = self.session, self.wire
        self.wire = Wire()
        self.session = Session(
            shared=self.shared,
            handler=self,
            wire=self.wire,
            client=type(before[0].client)(before[0].client.peer, before[0].client.topics),
        )
        self.wire.session = self.session
        return before

    def use(self, connection):
        self.session, self.wire = connection

    def ask(
        self,
        version,
        session_id,
        epoch,
        offsets=(),
        *,
        forget=(),
        topic="orders",
        topic_id=None,
        **fields,
    ):
        """Send a Fetch for {partition: offset} of a topic."""
        by_id = version >= 13
        name, topic_id = ("", topic_id or topic_id_of(topic)) if by_id else (topic, bytes(16))
        asked = [
            fetch.FetchRequestFetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1000)
            for p, o in dict(offsets).items()
        ]
        request = fetch.FetchRequest(
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[fetch.FetchRequestFetchTopic(name, topic_id, asked)] if asked else [],
            forgotten_topics_data=[fetch.FetchRequestForgottenTopic(name, topic_id, list(forget))]
            if forget
            else [],
            **{"max_wait_ms": 500, **fields},
        )
        header = encode_request_header(fetch.API_KEY, version, 5, "client")
        self.send(bytearray(header + fetch.encode_request(request, version)))

    def told(self, version):
        """(error code, session id, partitions) of the only reply."""
        response = self.response(version)
        return (
            response.error_code,
            response.session_id,
            [
                (p.partition_index, p.error_code, p.high_watermark, bytes(p.records or b""))
                for t in response.responses
                for p in t.partitions
            ],
        )

    def response(self, version):
        while self.due:
            self.due.pop(0)()
        frame = b"".join(self.wire.sent)
        self.wire.sent.clear()
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4, "there is one reply"
        return fetch.decode_response(frame, 9 if version >= 12 else 8, version)

    def asked(self, node=1):
        """{partition: offset} that a node is asked for by its only work, in order."""
        (work,) = self.links[node].works
        asked = work.partitions if work.fetch_set is None else work.fetch_set.asked.values()
        return {each.partition: each.fetch_offset for each in asked}

    def begin(self, version, offsets, *, topic="orders", high_watermark=9):
        """A full fetch, answered without records; the id of the new session."""
        self.ask(version, 0, 0, offsets, topic=topic)
        for link in self.links.values():
            for work in list(link.works):
                link.answer(
                    *[FetchedPartition(0, high_watermark, high_watermark, 0)] * len(work.partitions)
                )
        for link in self.links.values():  # Several nodes are asked again, to wait.
            for work in list(link.works):
                link.answer(
                    *[FetchedPartition(0, high_watermark, high_watermark, 0)] * len(work.partitions)
                )
        code, session_id, told = self.told(version)
        assert (code, len(told)) == (0, len(offsets))
        return session_id


def found(high_watermark=9, records=b"", log_start_offset=0):
    return FetchedPartition(
        0, high_watermark, high_watermark, log_start_offset, records, len(records)
    )
