"""Random histories of connections that share one memory budget: order is kept, no byte is lost.

For any pieces that clients send, and any order of answers and lost connections: requests start in
the order of the frames, no ordinary request overlaps another, replies leave in request order, and
once all is answered the budget is exactly 0.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from highwater.gateway.core.shared_input import LARGE_FRAME
from highwater.gateway.core.turn import SESSION_STARTS_MAX
from tests.unit.gateway.core.session_world import (
    FETCH,
    METADATA,
    PRODUCE,
    FileRange,
    Peer,
    World,
    request,
)

KINDS = st.sampled_from(["produce", "produce", "fetch", "produce0", "other", "negative"])
SIZES = st.sampled_from([8, 9, 40, 300, LARGE_FRAME, LARGE_FRAME + 1, 3 * LARGE_FRAME])
BAD_SIZES = st.sampled_from([-1, 0, 7, 4 * LARGE_FRAME + 1])


class Client:
    """What one client has sent, and what it must get."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.frames: list[tuple[str, int]] = []
        self.bytes_in_frames = 0
        self.answered: set[int] = set()
        self.ranges: list[FileRange] = []
        self.broken = False


class SessionLives(RuleBasedStateMachine):
    @initialize(
        budget=st.sampled_from([1_000, LARGE_FRAME * 2, 1 << 22]),
        in_flight=st.sampled_from([100, 1_000, 1 << 22]),
    )
    def start(self, budget, in_flight):
        self.world = World(
            budget_bytes=budget, frame_bytes_max=4 * LARGE_FRAME, in_flight_bytes_max=in_flight
        )
        self.clients = [Client(self.world.connect()) for _ in range(3)]
        self.gone: list[Client] = []
        self.number = 0

    def client(self, n):
        return self.clients[n % len(self.clients)]

    @rule(
        n=st.integers(0, 2),
        frames=st.lists(st.tuples(KINDS, SIZES), min_size=1, max_size=6),
        at_most=st.sampled_from([None, 1000, 7919]),
    )
    def send(self, n, frames, at_most):
        self.send_all(self.client(n), frames, at_most)

    def send_all(self, client, frames, at_most):
        if client.broken:
            return
        data = b""
        for kind, size in frames:
            self.number += 1
            key = {"fetch": FETCH, "other": METADATA, "negative": -7}.get(kind, PRODUCE)
            frame = request(key, self.number, max(size, 9))
            # The tests' handler takes a Produce that ends in "0" for acks=0.
            data += frame[:-1] + (b"0" if kind == "produce0" else b"x")
            client.frames.append(("other" if kind == "negative" else kind, self.number))
        client.peer.feed(data, at_most)

    @rule(
        n=st.integers(0, 2),
        count=st.integers(SESSION_STARTS_MAX, 3 * SESSION_STARTS_MAX),
        other_at=st.integers(0, 4 * SESSION_STARTS_MAX),
    )
    def send_a_burst(self, n, count, other_at):
        """More tiny requests in one read than start in one turn, perhaps with an ordinary one."""
        kinds = ["other" if place == other_at else "produce" for place in range(count)]
        self.send_all(self.client(n), [(kind, 9) for kind in kinds], None)

    @rule(n=st.integers(0, 2), data=st.data())
    def answer(self, n, data):
        client = self.client(n)
        peer = client.peer
        waiting = sorted({*peer.handler.open, *peer.handler.silent})
        if not waiting:
            return
        number = data.draw(st.sampled_from(waiting))
        if data.draw(st.booleans()):
            part = FileRange()
            client.ranges.append(part)
            silent = number in peer.handler.silent
            peer.answer(number, [b"%d" % number, part, b";"])
            if silent:
                client.ranges.pop()
        else:
            peer.answer(number)
        client.answered.add(number)

    @rule()
    def turn(self):
        self.world.run()
        for client in self.clients:
            client.peer.feed(b"")

    @rule(n=st.integers(0, 2), size=BAD_SIZES)
    def send_nonsense(self, n, size):
        client = self.client(n)
        if not client.broken:
            client.broken = True
            client.peer.feed(size.to_bytes(4, "big", signed=True) + b"\xff" * 20)

    @rule(n=st.integers(0, 2))
    def lose(self, n):
        client = self.clients.pop(n % len(self.clients))
        client.peer.lose()
        self.gone.append(client)
        self.clients.append(Client(self.world.connect()))

    @rule(n=st.integers(0, 2))
    def close_now_and_lose_later(self, n):
        peer = self.client(n).peer
        if peer.wire.closed is None:
            peer.wire.close("the test wants it")
        self.client(n).broken = True

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def answer_after_the_loss(self, data):
        client = data.draw(st.sampled_from(self.gone))
        handler = client.peer.handler
        for number in list(handler.open) + list(handler.silent):
            part = FileRange()
            client.ranges.append(part)
            if number in handler.silent:
                client.ranges.pop()
            client.peer.answer(number, [part])

    @invariant()
    def requests_start_in_order(self):
        for client in [*getattr(self, "clients", []), *getattr(self, "gone", [])]:
            started = client.peer.handler.started
            assert started == client.frames[: len(started)]

    @invariant()
    def an_ordinary_request_is_alone(self):
        for client in getattr(self, "clients", []):
            handler = client.peer.handler
            kinds = {number: kind for kind, number in handler.started}
            waiting = [kinds[number] for number in [*handler.open, *handler.silent]]
            assert "other" not in waiting or len(waiting) == 1

    @invariant()
    def replies_leave_in_the_order_of_requests(self):
        for client in getattr(self, "clients", []):
            texts = [part for part in client.peer.wire.sent if isinstance(part, bytes)]
            sent = [int(n) for n in b"".join(texts).decode().split(";") if n]
            with_reply = [n for kind, n in client.frames if kind != "produce0"]
            assert sent == with_reply[: len(sent)]
            assert client.answered.issuperset(sent)

    @invariant()
    def the_budget_counts_what_is_here(self):
        if not hasattr(self, "world"):
            return
        everyone = [*self.clients, *self.gone]
        assert self.world.budget.used >= sum(c.peer.session.in_flight_bytes for c in everyone)
        assert all(c.peer.session.outstanding >= 0 for c in everyone)

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        for _ in range(100_000):
            for client in self.clients:
                if client.peer.wire.closed is not None and not client.peer.lost:
                    # An aborted transport reports its end in the loop's next turn. Until then its
                    # waiting bytes count, and may keep another client's large frame from fitting.
                    client.peer.lose()
            waiting = [
                (c, n) for c in self.clients for n in [*c.peer.handler.open, *c.peer.handler.silent]
            ]
            for client, number in waiting:
                client.peer.answer(number)
                client.answered.add(number)
            for client in self.gone:
                for number in [*client.peer.handler.open, *client.peer.handler.silent]:
                    client.peer.answer(number)
            before = [len(c.peer.unread) for c in self.clients]
            self.turn()
            still = any(c.peer.handler.open or c.peer.handler.silent for c in self.clients)
            # Memory that one client released may let another one read.
            closing = any(c.peer.wire.closed is not None and not c.peer.lost for c in self.clients)
            reading = closing or any(
                c.peer.unread and c.peer.wire.reading and not c.broken and not c.peer.lost
                for c in self.clients
            )
            if not still and not reading and before == [len(c.peer.unread) for c in self.clients]:
                break
        for client in self.clients:
            if not client.broken:
                assert client.peer.handler.started == client.frames, "a frame was forgotten"
                assert client.peer.wire.reading
                assert client.answered == {n for _, n in client.frames}
            if not client.peer.lost:
                client.peer.lose()
        world.run()
        assert world.budget.used == 0
        for client in [*self.clients, *self.gone]:
            assert client.peer.session.in_flight_bytes == 0
            assert client.peer.session.outstanding == 0
            for part in client.ranges:
                assert part.released == (part not in client.peer.wire.sent)


TestSessionLives = SessionLives.TestCase
TestSessionLives.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
