import pytest

from highwater.rpc.message_memory import INBOX_MESSAGE_BYTES, AssemblyBudget
from highwater.rpc.messages import IN_PLACE_BYTES_MIN, PREFIX, MessageReader, send_message
from highwater.rpc.status import StatusCode


class FakeStream:
    """What a reader and `send_message` use of a stream."""

    def __init__(self):
        self.held = 0
        self.payload = None
        self.sent = []

    def hold(self, nbytes):
        self.held += nbytes

    def release(self, nbytes):
        self.held -= nbytes

    def send(self, head, parts, nbytes, end_stream=False):
        assert nbytes == len(head) + sum(map(len, parts))
        self.sent.append((head + b"".join(parts), end_stream))


class Reading:
    def __init__(self, *, message_bytes_max=1 << 20, budget=1 << 21):
        self.stream = FakeStream()
        self.messages = []
        self.ends = 0
        self.refusals = []
        self.bugs = []
        self.on_message = self.messages.append
        self.assembly = AssemblyBudget(budget)
        self.reader = MessageReader(
            self.stream,
            message_bytes_max=message_bytes_max,
            assembly=self.assembly,
            on_message=lambda message: self.on_message(bytes(message)),
            at_end=self._ended,
            refuse=self._refused,
            bug=self._bug,
        )

    def _ended(self):
        self.ends += 1

    def _refused(self, code, details):
        self.refusals.append(code)
        self.reader.close()

    def _bug(self, error):
        self.bugs.append(error)
        self.reader.close()

    def feed(self, data, cut=1 << 30):
        """As `FrameReader` does: in place where there is room."""
        pos = 0
        while pos < len(data):
            piece = data[pos : pos + cut]
            room = self.reader.room(len(piece))
            if room is None:
                self.reader.take(bytearray(b"--") + piece + b"--", 2, 2 + len(piece))
            else:
                piece = piece[: len(room)]
                room[:] = piece
                self.reader.filled(len(piece))
            pos += len(piece)


def wire(*messages):
    return b"".join(PREFIX.pack(0, len(message)) + message for message in messages)


SOME = (b"", b"a", b"bc" * 3000, b"", bytes(range(256)) * 400, b"end")


@pytest.fixture
def reading():
    return Reading()


@pytest.mark.parametrize("cut", [1, 2, 4, 5, 6, 7, 1000, 16_384, 1 << 30])
def test_messages_are_the_same_however_the_payload_is_cut(reading, cut):
    reading.feed(wire(*SOME), cut)
    assert reading.messages == list(SOME)
    assert reading.stream.held == 0
    assert reading.assembly.take(1 << 21)


def test_a_large_message_is_received_in_its_own_memory(reading):
    message = bytes(range(256)) * 1024
    data = wire(message)
    reading.feed(data[:100])
    assert len(reading.reader.room(1 << 30)) == len(message) - 95
    assert len(reading.reader.room(20_000)) == 20_000
    reading.feed(data[100:])
    assert reading.messages == [message]
    assert reading.reader.room(100) is None


def test_the_rest_of_a_message_that_is_not_worth_it_is_copied(reading):
    reading.feed(wire(bytes(IN_PLACE_BYTES_MIN))[:6])
    assert reading.reader.room(1 << 30) is None


def test_messages_are_each_ones_own(reading):
    kept = []
    reading.reader.on_message = kept.append
    buffer = bytearray(wire(b"first"))
    reading.reader.take(buffer, 0, len(buffer))
    buffer[:] = bytes(len(buffer))
    assert kept == [bytearray(b"first")]


def test_a_compressed_message_is_refused(reading):
    reading.feed(PREFIX.pack(1, 3) + b"abc" + wire(b"next"))
    assert reading.refusals == [StatusCode.UNIMPLEMENTED]
    assert reading.messages == []


@pytest.mark.parametrize("cut", [3, 1 << 30])
def test_a_message_above_the_limit_is_refused_at_its_prefix(cut):
    reading = Reading(message_bytes_max=10)
    reading.feed(wire(bytes(10)) + PREFIX.pack(0, 11), cut)
    assert reading.messages == [bytes(10)]
    assert reading.refusals == [StatusCode.RESOURCE_EXHAUSTED]


def test_messages_under_way_have_a_budget():
    reading = Reading(budget=1000)
    other = Reading()
    other.reader._assembly = reading.assembly
    reading.feed(wire(bytes(600))[:100])
    other.feed(wire(bytes(500))[:100])
    assert other.refusals == [StatusCode.RESOURCE_EXHAUSTED]
    reading.reader.close()
    assert reading.assembly.take(1000)


def test_a_whole_message_needs_no_budget():
    reading = Reading(budget=0)
    reading.feed(wire(bytes(600)))
    assert reading.messages == [bytes(600)]


def test_a_pause_holds_messages_and_the_peers_window(reading):
    reading.reader.pause()
    reading.feed(wire(b"a", b"b") + wire(b"cc")[:6], 4)
    assert reading.messages == []
    assert reading.stream.held == 18
    reading.reader.resume()
    assert reading.messages == [b"a", b"b"]
    assert reading.stream.held == 0
    reading.feed(b"c")
    assert reading.messages == [b"a", b"b", b"cc"]


def test_messages_that_wait_have_a_budget_also_if_they_are_empty():
    reading = Reading(budget=10 * INBOX_MESSAGE_BYTES)
    reading.reader.pause()
    reading.feed(wire(*[b""] * 10))
    assert reading.assembly.taken == 10 * INBOX_MESSAGE_BYTES
    reading.reader.resume()
    assert reading.messages == [b""] * 10
    assert (reading.assembly.taken, reading.stream.held) == (0, 0)
    reading.reader.pause()
    reading.feed(wire(*[b""] * 11))
    assert reading.refusals == [StatusCode.RESOURCE_EXHAUSTED]
    assert (reading.assembly.taken, reading.stream.held) == (0, 0)


def test_a_message_that_waits_counts_also_if_its_window_was_given_back():
    reading = Reading()
    data = wire(bytes(100_000))
    reading.feed(data[:90_000])
    reading.reader.pause()
    reading.feed(data[90_000:])
    assert reading.stream.held == 10_000 + 5
    assert reading.assembly.taken == 100_000 + INBOX_MESSAGE_BYTES
    reading.reader.close()
    assert (reading.assembly.taken, reading.stream.held) == (0, 0)


def test_payload_received_in_place_is_held_too(reading):
    data = wire(bytes(100_000))
    reading.feed(data[:1000])
    reading.reader.pause()
    reading.feed(data[1000:])
    assert reading.stream.held == len(data) - 1000
    reading.reader.resume()
    assert reading.stream.held == 0
    assert len(reading.messages) == 1


def test_on_message_may_pause_and_resume(reading):
    def pause_after_each(message):
        reading.messages.append(message)
        reading.reader.pause()

    reading.on_message = pause_after_each
    reading.feed(wire(b"a", b"b", b"c"))
    assert reading.messages == [b"a"]
    reading.reader.resume()
    assert reading.messages == [b"a", b"b"]
    assert reading.stream.held == 6

    def resume_at_once(message):
        pause_after_each(message)
        reading.reader.resume()

    reading.on_message = resume_at_once
    reading.reader.resume()
    reading.feed(wire(b"d", b"e"))
    assert reading.messages == [b"a", b"b", b"c", b"d", b"e"]
    assert reading.stream.held == 0


def test_the_end_comes_after_the_last_message_and_once(reading):
    reading.reader.pause()
    reading.feed(wire(b"a"))
    reading.reader.end()
    assert reading.ends == 0
    reading.reader.resume()
    assert reading.messages == [b"a"]
    assert reading.ends == 1
    reading.reader.pause()
    reading.reader.resume()
    assert reading.ends == 1


def test_an_end_without_messages_is_told_in_a_pause_too(reading):
    reading.reader.pause()
    reading.reader.end()
    assert reading.ends == 1


@pytest.mark.parametrize("torn", [b"\0", b"\0\0\0\0\2a"])
def test_an_end_inside_a_message(reading, torn):
    reading.feed(torn)
    reading.reader.end()
    assert reading.refusals == [StatusCode.INTERNAL]
    assert reading.ends == 0


def test_a_bug_ends_the_call_and_drops_the_rest(reading):
    def fail(_message):
        raise ZeroDivisionError

    reading.on_message = fail
    reading.feed(wire(b"a", b"b"))
    assert [type(bug) for bug in reading.bugs] == [ZeroDivisionError]


def test_a_closed_reader_takes_nothing_and_holds_nothing(reading):
    reading.reader.pause()
    reading.feed(wire(b"a", b"b"))
    reading.reader.close()
    assert reading.stream.held == 0
    reading.reader.resume()
    reading.reader.end()
    assert reading.messages == []
    assert reading.ends == 0


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (b"abc", b"abc"),
        (bytearray(b"abc"), b"abc"),
        (memoryview(b"abc"), b"abc"),
        ([b"a", bytearray(b"b"), memoryview(b"c")], b"abc"),
        ((), b""),
    ],
)
def test_messages_are_sent_from_any_buffers(parts, message):
    stream = FakeStream()
    send_message(stream, parts, end_stream=True)
    assert stream.sent == [(wire(message), True)]
