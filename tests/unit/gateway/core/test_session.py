"""One connection's rules: frames, order, barriers, limits, and memory that is always returned."""

import pytest

from highwater.gateway.core.frame_input import SCARCE_READ
from highwater.gateway.core.reading import MUTED
from highwater.gateway.core.session import (
    REPLIES_MAX,
    WAITING_FRAMES_MAX,
)
from highwater.gateway.core.shared_input import LARGE_FRAME, OUTSTANDING_MAX, SHARED_BUFFER
from highwater.gateway.core.turn import SESSION_STARTS_MAX, STARTS_MAX
from tests.unit.gateway.core.session_world import (
    FETCH,
    METADATA,
    PRODUCE,
    FileRange,
    World,
    request,
)


def silent(number: int) -> bytes:
    return request(PRODUCE, number)[:-1] + b"0"


# ---- order ----


def test_produce_and_fetch_overlap_and_replies_keep_the_order_of_requests():
    peer = World().connect()
    peer.feed(b"".join(request(n % 2, n) for n in range(6)))
    assert peer.numbers == list(range(6))
    for number in (5, 3, 1, 2, 4):
        peer.answer(number)
        peer.world.run()
        assert peer.text == ""
    peer.answer(0)
    peer.world.run()
    assert peer.text == "0;1;2;3;4;5;"
    assert peer.world.budget.used == 0


def test_requests_other_than_produce_and_fetch_start_alone():
    peer = World().connect()
    peer.feed(request(PRODUCE, 1) + request(METADATA, 2) + request(FETCH, 3) + request(18, 4))
    assert peer.numbers == [1]
    peer.answer(1)
    assert peer.numbers == [1], "it starts in the next turn, not inside a completion"
    peer.world.run()
    assert peer.numbers == [1, 2]
    peer.feed(request(PRODUCE, 5))
    peer.answer(2)
    peer.world.run()
    assert peer.numbers == [1, 2, 3], "18 waits for the fetch, and 5 behind it"
    peer.answer(3)
    peer.world.run()
    peer.answer(4)
    peer.world.run()
    assert peer.numbers == [1, 2, 3, 4, 5]
    assert peer.text == "1;2;3;4;"


def test_ordinary_requests_that_complete_at_once_stay_in_order():
    peer = World().connect()
    peer.handler.at_once = True
    peer.feed(b"".join(request(METADATA, n) for n in range(1, 20)) + request(PRODUCE, 20))
    peer.world.run()
    assert peer.numbers == list(range(1, 21))
    assert peer.text == "".join(f"{n};" for n in range(1, 20))


@pytest.mark.parametrize("key", [-1, -32768, 2, 32767])
def test_every_key_but_produce_and_fetch_is_a_barrier(key):
    peer = World().connect()
    peer.feed(request(PRODUCE, 1) + request(PRODUCE, 2) + request(key, 3) + request(FETCH, 4))
    peer.answer(1)
    peer.world.run()
    assert peer.numbers == [1, 2]
    peer.answer(2)
    peer.world.run()
    assert peer.handler.started[2:] == [("other", 3)]
    peer.answer(3)
    peer.world.run()
    assert peer.numbers == [1, 2, 3, 4]


def test_acks_0_has_no_reply_but_a_barrier_waits_for_it():
    peer = World().connect()
    peer.feed(silent(1) + request(PRODUCE, 2) + silent(3) + request(METADATA, 4))
    peer.answer(2)
    peer.world.run()
    assert peer.text == "2;"
    assert peer.numbers == [1, 2, 3]
    peer.answer(1)
    peer.answer(3)
    peer.world.run()
    assert peer.numbers == [1, 2, 3, 4]
    peer.answer(4)
    peer.world.run()
    assert peer.text == "2;4;"
    assert peer.world.budget.used == 0


def test_parts_stay_together_between_other_replies():
    peer = World().connect()
    part = FileRange()
    peer.feed(request(FETCH, 1) + request(FETCH, 2) + request(PRODUCE, 3))
    peer.answer(3)
    peer.answer(2, [b"head", part, b"tail"])
    peer.answer(1)
    peer.world.run()
    assert peer.wire.sent == [b"1;", b"head", part, b"tail", b"3;"]
    assert part.released == 0, "whoever sends it releases it"


# ---- limits ----


def test_reading_pauses_above_the_limit_of_bytes_in_flight_and_resumes():
    peer = World(in_flight_bytes_max=100).connect()
    peer.feed(b"".join(request(PRODUCE, n, 30) for n in range(3)))
    assert peer.wire.reading
    peer.feed(request(PRODUCE, 3, 30))
    assert not peer.wire.reading
    peer.answer(2)
    assert peer.wire.reading, "in flight counts until it is answered, not until it is sent"


def test_requests_under_way_are_limited_in_number_too():
    peer = World().connect()
    peer.feed(b"".join(request(PRODUCE, n, 8) for n in range(OUTSTANDING_MAX)))
    peer.world.run()
    assert len(peer.numbers) == OUTSTANDING_MAX
    assert not peer.wire.reading
    peer.answer(7)
    assert peer.wire.reading


def test_frames_behind_a_barrier_are_limited_and_all_are_served():
    peer = World().connect()
    peer.feed(request(METADATA, 0))
    data = b"".join(request(PRODUCE, n) for n in range(1, 3 * WAITING_FRAMES_MAX))
    peer.feed(data, at_most=16 * 20)
    assert not peer.wire.reading
    assert len(peer.unread) > 0
    peer.answer(0)
    peer.world.run()
    for number in range(1, 3 * WAITING_FRAMES_MAX):
        peer.feed(b"")
        peer.answer(number)
        peer.world.run()
    assert peer.wire.reading
    assert peer.numbers == list(range(3 * WAITING_FRAMES_MAX))
    assert peer.world.budget.used == 0


def answer_at_once(peer):
    """Its Produce requests, as they start."""

    def produce(session, frame):
        type(peer.handler).produce(peer.handler, session, frame)
        peer.answer(peer.numbers[-1])

    peer.handler.produce = produce


@pytest.mark.parametrize("at_once", [False, True])
def test_many_requests_of_one_read_start_over_several_turns(at_once):
    world = World()
    peer = world.connect()
    count = 3 * SESSION_STARTS_MAX + 5

    if at_once:
        answer_at_once(peer)
    peer.feed(b"".join(request(PRODUCE, n) for n in range(count)) + request(FETCH, count))
    # The first answers leave in the same callback that starts the second part.
    for turn in range(1, 4):
        assert len(peer.numbers) == turn * SESSION_STARTS_MAX
        assert not peer.wire.reading, "it reads on while whole frames wait"
        world.soon.popleft()()
    assert peer.numbers == list(range(count + 1))
    assert peer.wire.reading
    for number in list(peer.handler.open):
        peer.answer(number)
    world.run()
    assert peer.text == "".join(f"{n};" for n in range(count + 1))
    assert world.budget.used == 0


def test_as_many_requests_as_may_start_in_one_turn_start_at_once():
    peer = World().connect()
    peer.feed(b"".join(request(PRODUCE, n) for n in range(SESSION_STARTS_MAX)))
    assert len(peer.numbers) == SESSION_STARTS_MAX
    assert peer.wire.reading
    assert not peer.session.paused


def test_frames_behind_a_barrier_start_within_the_limit_of_a_turn():
    world = World()
    peer = world.connect()
    count = 2 * SESSION_STARTS_MAX
    peer.feed(request(METADATA, 0) + b"".join(request(PRODUCE, n + 1) for n in range(count)))
    world.run()
    assert peer.numbers == [0]
    assert not peer.wire.reading
    peer.answer(0)
    world.soon.popleft()()
    assert len(peer.numbers) == 1 + SESSION_STARTS_MAX
    world.run()
    assert peer.numbers == list(range(count + 1))
    assert peer.wire.reading


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("connections", [5, 100])
def test_many_connections_with_many_requests_share_the_turns(connections, at_once):
    world = World(budget_bytes=1 << 24)
    peers = [world.connect() for _ in range(connections)]

    def started():
        return [len(peer.numbers) for peer in peers]

    for peer in peers:
        if at_once:
            answer_at_once(peer)
        peer.feed(b"".join(request(PRODUCE, n) for n in range(600)))
    assert sum(started()) == STARTS_MAX, "all reads of a turn together"
    for _ in range(4):
        before = started()
        world.soon.popleft()()
        assert STARTS_MAX - connections < sum(started()) - sum(before) <= STARTS_MAX
        assert max(b - a for a, b in zip(before, started(), strict=True)) <= SESSION_STARTS_MAX
    assert min(started()) > 0, "nobody is left behind"
    world.run()
    assert started() == [600] * connections


def test_a_read_of_one_frame_starts_it_whatever_others_have_started():
    world = World(budget_bytes=1 << 24)
    for _ in range(5):
        world.connect().feed(b"".join(request(PRODUCE, n) for n in range(200)))
    honest = world.connect()
    honest.feed(request(PRODUCE, 0))
    assert honest.numbers == [0]
    late = world.connect()
    late.feed(request(PRODUCE, 0) + request(PRODUCE, 1))
    assert late.numbers == []
    world.soon.popleft()()
    assert late.numbers == [0, 1], "whoever waits gets a share of the turn"


def test_requests_that_wait_behind_others_share_the_turn_in_which_those_end():
    """Where a reply is due at once, the requests behind it start in the same turn: in how many rounds?"""
    world = World(budget_bytes=1 << 24)
    peers = [world.connect() for _ in range(10)]
    for peer in peers:
        peer.feed(request(METADATA, 0) + b"".join(request(PRODUCE, n) for n in range(1, 101)))
    world.run()
    assert [len(peer.numbers) for peer in peers] == [1] * 10
    for peer in peers:
        answer_at_once(peer)
        peer.answer(0)
    world.soon.popleft()()
    assert sum(len(peer.numbers) - 1 for peer in peers) == STARTS_MAX
    world.run()
    assert [len(peer.numbers) for peer in peers] == [101] * 10


def test_a_lost_connection_drops_frames_that_wait_for_a_turn():
    world = World()
    peer = world.connect()
    peer.feed(b"".join(request(PRODUCE, n) for n in range(5 * SESSION_STARTS_MAX)))
    peer.lose()
    world.run()
    assert len(peer.numbers) == SESSION_STARTS_MAX
    for number in list(peer.handler.open):
        peer.answer(number)
    assert world.budget.used == 0
    assert peer.session.in_flight_bytes == 0


def test_a_muted_connection_is_not_read_until_unmuted():
    peer = World().connect()
    peer.session.pause(MUTED)
    assert not peer.wire.reading
    peer.session.resume(MUTED)
    assert peer.wire.reading


def test_reads_are_small_while_memory_is_exhausted():
    world = World(budget_bytes=100)
    peer = world.connect()
    assert len(peer.session.get_buffer(-1)) == SHARED_BUFFER
    peer.feed(request(PRODUCE, 1, 100))
    assert len(peer.session.get_buffer(-1)) == SCARCE_READ
    peer.feed(request(PRODUCE, 2, 100)[:50])
    assert len(peer.session.get_buffer(-1)) == SCARCE_READ


@pytest.mark.parametrize("kind", [PRODUCE, FETCH])
def test_while_memory_is_scarce_a_connection_reads_again_after_its_own_requests(kind):
    world = World(budget_bytes=1000)
    peers = [world.connect() for _ in range(50)]
    for peer in peers:
        for n in range(20):
            peer.feed(request(kind, n, 300))
    assert world.budget.used <= 1000 + 300 * len(peers), "one read for each connection"
    for n in range(20):
        for peer in peers:
            assert peer.numbers == list(range(len(peer.numbers)))
            peer.answer(n)
            peer.feed(b"")
            world.run()
    assert [len(peer.numbers) for peer in peers] == [20] * 50
    assert (world.budget.used, {peer.wire.reading for peer in peers}) == (0, {True})


def test_while_memory_is_scarce_a_connection_that_only_waits_is_still_read():
    world = World(budget_bytes=100)
    busy, waiting = world.connect(), world.connect()
    busy.feed(request(PRODUCE, 1, 200))
    waiting.feed(request(METADATA, 1))
    assert (busy.wire.reading, waiting.wire.reading) == (False, True)


def test_replies_behind_an_unfinished_one_are_limited():
    peer = World().connect()
    peer.feed(request(FETCH, 0))
    for n in range(1, 2 * REPLIES_MAX):
        peer.feed(request(FETCH, n))
        if not peer.wire.reading:
            break
        peer.answer(n)
    assert len(peer.session.replies) == REPLIES_MAX
    peer.answer(n)
    assert not peer.wire.reading
    peer.answer(0)
    peer.world.run()
    assert peer.wire.reading
    assert not peer.session.replies


def test_begun_frames_count_until_they_are_whole_or_the_connection_ends():
    world = World()
    one, other = world.connect(), world.connect()
    one.feed(request(PRODUCE, 1, 40) + request(PRODUCE, 2, 40)[:30])
    assert (world.budget.used, world.budget.begun) == (40, 30)
    other.feed(request(PRODUCE, 1, 500)[:3])
    assert world.budget.begun == 33
    one.feed(request(PRODUCE, 2, 40)[30:])
    assert (world.budget.used, world.budget.begun) == (80, 3)
    other.lose()
    assert world.budget.begun == 0
    other = world.connect()
    large = request(PRODUCE, 1, LARGE_FRAME + 1)
    other.feed(large[:3])
    assert world.budget.begun == 3
    other.feed(large[3:100])
    assert (world.budget.used, world.budget.begun) == (80 + LARGE_FRAME + 1, 0)
    one.feed(request(PRODUCE, 3, 40)[:7])
    assert world.budget.begun == 7
    one.lose()
    assert world.budget.begun == 0


def test_many_begun_frames_are_limited_and_an_honest_client_is_served():
    world = World()
    attackers = [world.connect() for _ in range(200)]
    honest = world.connect()
    for n, attacker in enumerate(attackers):
        attacker.feed(request(PRODUCE, 1, LARGE_FRAME)[:-1])
        frame = request(PRODUCE, n, 300)
        honest.feed(frame[:200])
        assert world.budget.begun <= world.budget.begun_max
        honest.feed(frame[200:])
    assert honest.numbers == list(range(200))
    closed = [attacker.wire.closed is not None for attacker in attackers]
    assert world.budget.given_up == sum(closed) > 180
    assert closed == sorted(closed, reverse=True), "those that began first"
    for attacker in attackers:
        attacker.lose()
    assert world.budget.begun == 0


def test_while_one_connection_waits_for_memory_others_hold_little():
    world = World(budget_bytes=LARGE_FRAME + 1000)
    busy, late, later = world.connect(), world.connect(), world.connect()
    busy.feed(request(PRODUCE, 1, 2000))
    assert len(later.session.get_buffer(-1)) == SHARED_BUFFER
    late.feed(request(PRODUCE, 2, LARGE_FRAME + 1), at_most=1000)
    assert len(later.session.get_buffer(-1)) == SCARCE_READ


def test_a_large_frame_waits_for_memory_without_reading():
    world = World(budget_bytes=LARGE_FRAME + 1000)
    busy, late = world.connect(), world.connect()
    busy.feed(request(PRODUCE, 1, 2000))
    late.feed(request(PRODUCE, 2, LARGE_FRAME + 1), at_most=1000)
    assert not late.wire.reading
    assert world.budget.used == 2000
    busy.answer(1)
    assert late.wire.reading
    late.feed(b"")
    assert late.numbers == [2]
    late.answer(2)
    assert world.budget.used == 0


def test_a_frame_larger_than_the_budget_is_accepted_if_it_is_alone():
    world = World(budget_bytes=1000)
    peer = world.connect()
    peer.feed(request(PRODUCE, 1, LARGE_FRAME * 2), at_most=5000)
    assert peer.numbers == [1]


# ---- the end ----


def test_a_connection_lost_within_a_large_frame_releases_its_memory():
    world = World()
    peer = world.connect()
    peer.feed(request(PRODUCE, 1, LARGE_FRAME + 1)[:5000])
    assert world.budget.used == LARGE_FRAME + 1
    assert peer.session.mid_frame
    peer.lose()
    assert world.budget.used == 0


def test_a_connection_lost_while_waiting_for_memory_lets_others_continue():
    world = World(budget_bytes=2 * LARGE_FRAME + 1000)
    busy, large, small = world.connect(), world.connect(), world.connect()
    busy.feed(request(PRODUCE, 1, 900))
    large.feed(request(PRODUCE, 2, 2 * LARGE_FRAME + 500), at_most=100)
    small.feed(request(PRODUCE, 3, LARGE_FRAME + 1), at_most=100)
    assert not small.wire.reading
    large.lose()
    assert small.wire.reading
    assert world.budget.used == 900 + LARGE_FRAME + 1


def test_replies_of_a_lost_connection_are_abandoned_or_released_once():
    world = World()
    peer = world.connect()
    unsent, late = FileRange(), FileRange()
    peer.feed(request(FETCH, 1) + request(FETCH, 2) + request(FETCH, 3) + request(METADATA, 4))
    peer.answer(2, [b"head", unsent])
    peer.lose()
    assert peer.handler.abandoned == [1, 3]
    assert unsent.released == 1
    peer.answer(1, [b"head", late])
    peer.answer(3)
    world.run()
    assert late.released == 1
    assert peer.wire.sent == []
    assert peer.numbers == [1, 2, 3]
    assert world.budget.used == 0
    assert peer.session.in_flight_bytes == 0


def test_a_handler_that_closes_stops_the_frames_behind_it():
    world = World()
    peer = world.connect()

    def refuse(session, frame):
        session.finished(len(frame))
        session.wire.close("no")

    peer.handler.produce = refuse
    peer.feed(request(PRODUCE, 1) + request(FETCH, 2) + request(METADATA, 3))
    assert peer.numbers == []
    world.run()
    peer.lose()
    assert world.budget.used == 0
