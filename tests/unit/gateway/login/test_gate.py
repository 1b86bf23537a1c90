"""What a session may do before, while and after its client logs in."""

import pytest

from highwater.gateway.core.login_port import Step
from highwater.gateway.login.fair_turns import LoginsBusy
from highwater.gateway.login.gate import ANSWER_S, FRAME_BYTES_MAX, LoginGate, LoginLimits
from highwater.gateway.login.mechanisms import Mechanisms
from highwater.gateway.login.scram_server import LoginRefused
from highwater.gateway.login.users import Users
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.near_nodes import NearNodes
from highwater.gateway.routing.table import InstanceTopics
from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import ANONYMOUS, Principal
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.scram import ScramKey, ScramMechanism
from highwater.runtime.log_limit import LINES_PER_WINDOW
from tests.unit.gateway.core.session_world import FETCH, METADATA, PRODUCE, World, request
from tests.unit.gateway.login.test_scram_server import FINAL, FIRST, NONCE, credential

SHA_256 = ScramMechanism.SCRAM_SHA_256
HANDSHAKE, API_VERSIONS, AUTHENTICATE = 17, 18, 36
FRAME = 1 << 20


class Timer:
    def __init__(self, at_s, call):
        self.at_s, self.call = at_s, call

    def cancel(self):
        self.call = None


class Log:
    def __init__(self):
        self.lines = []

    def warning(self, event, **values):
        self.lines.append((event, values))


class TokenLogin:
    """Takes every token, for 20 s."""

    async def take(self, _token):
        return Step(b"", "user", 20_000)


class Connections:
    """Connections to a listener with logins; the test is the clock."""

    def __init__(self, *, lifetime_s=0.0, offered=("SCRAM-SHA-256", "PLAIN"), takes_tokens=True):
        self.takes_tokens = takes_tokens
        self.meanwhile = None
        """Called while a password is checked on a thread."""
        self.now_s = 0.0
        self.timers = []
        self.slept = []
        self.settled = []
        self.failures = []
        self.log = Log()
        self.world = World(frame_bytes_max=FRAME)
        self.known = {ScramKey(DEFAULT_INSTANCE, "user", SHA_256): credential()}
        self.peer = self.world.connect()
        self.session = self.peer.session
        peer = Peer(instance=DEFAULT_INSTANCE, node=None, host="10.0.0.1", port=1)
        self.session.client = ClientInfo(peer, InstanceTopics(NearNodes()))
        self.gate = LoginGate(
            self.peer.handler,
            Mechanisms(
                Users(lambda: self.known, lambda: b"secret"),
                nonce=lambda: NONCE,
                on_thread=lambda _instance: self.on_thread,
                by_token=lambda _instance: TokenLogin(),
                takes_tokens=lambda _instance: self.takes_tokens,
            ),
            LoginLimits(login_s=30, failure_delay_s=0.1, lifetime_s=lifetime_s),
            call_later=self.call_later,
            now_ms=lambda: int(self.now_s * 1000),
            log=self.log,
            sleep=self.sleep,
            logged_in=self.logged_in,
            login_failed=self.failures.append,
        )
        self.gate.admit(self.session, offered)
        self.login = self.session.client.login

    def call_later(self, delay_s, call):
        self.timers.append(Timer(self.now_s + delay_s, call))
        return self.timers[-1]

    def wait(self, seconds):
        self.now_s += seconds
        due = [timer for timer in self.timers if timer.at_s <= self.now_s]
        self.timers = [timer for timer in self.timers if timer.at_s > self.now_s]
        for timer in due:
            if timer.call is not None:
                timer.call()

    async def log_in_by_token(self):
        assert self.login.handshake("OAUTHBEARER") == ErrorCode.NONE
        assert (await self.login.take(b"token")).user == "user"

    def logged_in(self, session):
        self.settled.append((session.client.requester.principal.name, session.handler))

    async def on_thread(self, check):
        if self.meanwhile is not None:
            self.meanwhile()
        return check()

    async def sleep(self, seconds):
        self.slept.append(seconds)

    async def log_in(self):
        assert self.login.handshake("SCRAM-SHA-256") == ErrorCode.NONE
        await self.login.take(FIRST)
        return await self.login.take(FINAL)

    def fail_at(self, instance, host):
        """Somebody asks for a mechanism that nobody offers, by a port of the instance."""
        session = self.world.connect().session
        peer = Peer(instance=instance, node=None, host=host, port=1)
        session.client = ClientInfo(peer, InstanceTopics(NearNodes()))
        self.gate.admit(session, ("PLAIN",))
        session.client.login.handshake("NONSENSE")

    def serves(self, key=PRODUCE):
        """True if a request reaches the usual handler."""
        before = len(self.peer.handler.started)
        self.peer.feed(request(key, before))
        reached = len(self.peer.handler.started) > before
        if reached:
            self.peer.answer(before)
            self.world.run()
        return reached


@pytest.fixture
def c():
    return Connections()


@pytest.mark.parametrize("key", [PRODUCE, FETCH, METADATA, 10, -1, 32_000])
def test_before_a_login_any_other_request_closes_the_connection(c, key):
    assert not c.serves(key)
    assert "without a login" in c.peer.wire.closed
    assert c.world.shared.meters.refused == 1


@pytest.mark.parametrize("key", [HANDSHAKE, API_VERSIONS, AUTHENTICATE])
def test_before_a_login_what_belongs_to_it_passes(c, key):
    assert c.serves(key)
    assert c.peer.wire.closed is None


async def test_after_a_login_all_requests_pass_and_the_client_has_a_name(c):
    assert c.session.client.requester.principal == ANONYMOUS
    step = await c.log_in()
    assert step.user == "user"
    assert c.session.client.requester.principal == Principal("User", "user")
    assert c.settled == [("user", c.peer.handler)], "told with its user and its usual handler"
    assert c.serves(PRODUCE)
    assert c.serves(METADATA)
    assert (c.gate.logins, c.gate.failed) == (1, 0)
    c.wait(10_000)
    assert c.serves(FETCH), "neither the wait for a login nor its lifetime is left"


async def test_in_the_middle_of_a_login_nothing_else_passes(c):
    c.login.handshake("SCRAM-SHA-256")
    await c.login.take(FIRST)
    assert not c.serves(METADATA)
    assert c.peer.wire.closed is not None


async def test_frames_are_small_before_a_login(c):
    c.peer.feed((FRAME_BYTES_MAX + 1).to_bytes(4, "big") + bytes(16))
    assert str(FRAME_BYTES_MAX) in c.peer.wire.closed


async def test_frames_are_as_large_as_all_others_after_a_login(c):
    await c.log_in()
    c.peer.feed(request(PRODUCE, 1, 2 * FRAME_BYTES_MAX))
    assert c.peer.wire.closed is None
    assert c.peer.numbers == [1]


async def test_a_login_that_fails_is_answered_late_and_the_connection_closed(c):
    c.login.handshake("SCRAM-SHA-256")
    await c.login.take(FIRST)
    with pytest.raises(LoginRefused):
        await c.login.take(FINAL.replace(b"p=dHz", b"p=eHz"))
    assert c.slept == [0.1]
    assert c.peer.wire.closed is None, "the answer has to leave"
    assert not c.login.expects_token
    c.wait(ANSWER_S)
    assert c.peer.wire.closed == "its login failed"
    assert (c.gate.logins, c.gate.failed) == (0, 1)
    (line,) = c.log.lines
    assert line[0] == "login_failed"
    assert line[1]["host"] == "10.0.0.1"
    assert "pencil" not in str(line)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "scram-sha-256", "", "x" * 10_000])
def test_an_unknown_mechanism_closes_the_connection(c, mechanism):
    assert c.login.handshake(mechanism) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    c.wait(ANSWER_S)
    assert c.peer.wire.closed == "its login failed"
    (line,) = c.log.lines
    shown = mechanism if len(mechanism) <= 20 else "no name of a mechanism"
    assert line[1]["mechanism"] == shown, "not a token that stands in its place"


def test_a_client_that_does_not_log_in_is_closed(c):
    c.wait(29)
    assert c.peer.wire.closed is None
    c.wait(1)
    assert c.peer.wire.closed == "no login in time"
    assert c.gate.late == 1


def test_a_connection_that_is_gone_leaves_no_timer(c):
    c.login.close()
    c.wait(100)
    assert c.peer.wire.closed is None
    assert c.gate.late == 0


async def test_where_logins_expire_the_client_has_to_log_in_again():
    c = Connections(lifetime_s=60)
    await c.log_in()
    assert c.login.lifetime_ms == 60_000
    c.wait(59)
    assert c.serves(PRODUCE)
    assert (await c.log_in()).user == "user"
    c.wait(59)
    assert c.serves(PRODUCE), "its lifetime counts from the last login"
    c.wait(1)
    assert not c.serves(PRODUCE)
    assert c.peer.wire.closed is not None


@pytest.mark.parametrize(("lifetime_s", "good_s"), [(0, 20), (60, 20), (10, 10)])
async def test_a_login_by_token_ends_with_the_token(lifetime_s, good_s):
    c = Connections(lifetime_s=lifetime_s, offered=("OAUTHBEARER",))
    await c.log_in_by_token()
    assert c.login.lifetime_ms == good_s * 1000
    c.wait(good_s - 1)
    assert c.serves(PRODUCE)
    await c.log_in_by_token()
    c.wait(good_s - 1)
    assert c.serves(PRODUCE)
    c.wait(1)
    assert not c.serves(PRODUCE)


async def test_a_client_may_log_in_again_after_the_end_of_its_login():
    c = Connections(lifetime_s=60)
    await c.log_in()
    c.wait(61)
    assert (await c.log_in()).user == "user"
    assert c.serves(PRODUCE)


async def test_a_password_that_was_changed_meanwhile():
    c = Connections(lifetime_s=60)
    await c.log_in()
    c.known.clear()
    c.wait(2)
    assert c.serves(PRODUCE)
    with pytest.raises(LoginRefused):
        await c.log_in()
    c.wait(ANSWER_S)
    assert c.peer.wire.closed == "its login failed"


async def test_an_instance_that_takes_no_tokens_does_not_offer_them():
    c = Connections(offered=("OAUTHBEARER", "PLAIN"), takes_tokens=False)
    assert c.login.offered == ("PLAIN",)
    assert c.login.handshake("OAUTHBEARER") == ErrorCode.UNSUPPORTED_SASL_MECHANISM


async def test_failures_of_one_instance_do_not_hide_those_of_another(c):
    """A client that fails as fast as it can fills its own instance's lines."""
    for number in range(50):
        c.fail_at(InstanceId("noisy"), f"10.0.0.{number}")
    c.fail_at(InstanceId("quiet"), "10.1.0.1")
    told = [(v["instance"], v["host"]) for event, v in c.log.lines if event == "login_failed"]
    assert told[-1] == ("quiet", "10.1.0.1")
    assert len(told) == LINES_PER_WINDOW + 1
    assert (c.failures.count("noisy"), c.failures.count("quiet")) == (50, 1)


@pytest.mark.parametrize("password", [b"pencil", b"wrong"])
async def test_a_client_that_goes_while_its_password_is_checked_leaves_nothing(password):
    """A timer that began after the end would keep the session for as long as its login is good."""
    c = Connections(lifetime_s=3600.0)
    assert c.login.handshake("PLAIN") == ErrorCode.NONE
    c.meanwhile = c.login.close
    if password == b"pencil":
        await c.login.take(b"\0user\0" + password)
    else:
        with pytest.raises(LoginRefused):
            await c.login.take(b"\0user\0" + password)
    assert [timer for timer in c.timers if timer.call is not None] == []
    assert c.settled == []


async def test_a_login_that_finds_too_many_before_it_is_closed_without_an_answer(c):
    """An answer would say that the password is wrong, after which clients do not come again."""

    def busy():
        raise LoginsBusy("too many")

    assert c.login.handshake("PLAIN") == ErrorCode.NONE
    c.meanwhile = busy
    with pytest.raises(LoginRefused):
        await c.login.take(b"\0user\0pencil")
    assert c.peer.wire.closed == "too many logins wait"
