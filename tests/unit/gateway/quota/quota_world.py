"""Client quotas whose clock the test moves."""

from highwater.gateway.core.session import Session
from highwater.gateway.quota.client_quotas import ClientQuotas
from highwater.gateway.quota.core.rates import QuotaRates
from highwater.gateway.quota.core.windowed_rate import QuotaWindows
from highwater.gateway.quota.limited_requests import LimitedRequests
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.near_nodes import NearNodes
from highwater.gateway.routing.table import InstanceTopics
from highwater.model.authorization import USER, Principal
from highwater.model.client_quotas import ClientQuotaKey, quota_entity
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.steps import finish


class Now:
    def __init__(self, ms=1_000_000):
        self.ms = ms

    def __call__(self):
        return self.ms


def client_quotas(now=None, **windows):
    """Without any quotas so far; their handlers are still to be named."""
    return ClientQuotas(QuotaRates(QuotaWindows(**windows), now or Now()))


def key(instance=DEFAULT_INSTANCE, **parts):
    """The entity with these parts; `client` is for the client id, None for the default."""
    names = {"client": "client-id"}
    return ClientQuotaKey(
        instance, quota_entity((names.get(kind, kind), name) for kind, name in parts.items())
    )


class Handler:
    """Notes what it gets."""

    def __init__(self):
        self.got = []

    def produce(self, session, frame):
        self.got.append(("produce", frame))

    def fetch(self, session, frame):
        self.got.append(("fetch", frame))

    def other(self, session, frame):
        self.got.append(("other", frame))

    def reply_failed(self, session, error):
        self.got.append(("failed", error))

    def hold(self, session, frame, throttle_ms):
        self.got.append(("held", frame, throttle_ms))


class Wire:
    def __init__(self):
        self.unmuted = 0

    def send(self, parts):
        raise AssertionError

    def unmute_now(self):
        self.unmuted += 1


class Clients:
    """Sessions of a gateway with client quotas."""

    def __init__(self, shared, **windows):
        self.now = Now()
        self.clock_ns = 0
        self.shared = shared
        self.quotas = client_quotas(self.now, **windows)
        self.usual = Handler()
        self.limited = LimitedRequests(self.usual, self.usual, self._ns)
        self.quotas.handle_by(self.usual, self.limited)
        self.sessions = []

    def _ns(self):
        self.clock_ns += 1_000_000
        return self.clock_ns

    def set(self, quotas):
        """Takes an image's quotas."""
        finish(self.quotas.following(quotas, self.sessions))

    def connect(self, *, user=None, client_id=None, instance=DEFAULT_INSTANCE):
        peer = Peer(instance=instance, node=None, host="10.0.0.1", port=1)
        client = ClientInfo(peer, InstanceTopics(NearNodes()))
        session = Session(shared=self.shared, handler=self.usual, wire=Wire(), client=client)
        if user is not None:
            client.requester = client.requester._replace(principal=Principal(USER, user))
        self.quotas.settle(session)
        self.sessions.append(session)
        if client_id is not None:
            self.quotas.identify(session, client_id)
        return session
