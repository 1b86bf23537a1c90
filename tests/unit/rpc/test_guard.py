import pytest
import structlog

from highwater.rpc.guard import NO_SECRET, WRONG_SECRET, Guard, names_of
from highwater.runtime.logging import silent_logger
from highwater.runtime.shared_secret import SharedSecret

SECRET = "s" * 20
RIGHT = ("authorization", f"Bearer {SECRET}")


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return SharedSecret(path, on_failure=lambda error: None)


def guard_of(secret=None, names=(), log=None, now_ms=lambda: 0):
    return Guard(secret=secret, names=names, log=log or silent_logger(), monotonic_ms=now_ms)


def test_calls_have_to_show_the_secret(secret):
    guard = guard_of(secret)
    assert guard.asks_for_secret
    assert guard.refusal([("a", "b"), RIGHT]) == ""
    assert guard.refusal([("authorization", f"Bearer {SECRET}".encode())]) == ""
    assert guard.refusal([]) == guard.refusal([("a", SECRET)]) == NO_SECRET
    assert guard.refusal([("authorization", f"Bearer {SECRET}x")]) == WRONG_SECRET
    assert guard.refusal([RIGHT, RIGHT]) == WRONG_SECRET, "a peer of ours shows it once"


def test_without_a_secret_calls_show_nothing():
    guard = guard_of()
    assert not guard.asks_for_secret
    assert guard.refusal([]) == ""


def test_names():
    guard = guard_of(names=["Node.example", "10.0.0.1"])
    assert guard.knows(["other", "node.EXAMPLE"])
    assert guard.knows(["10.0.0.1"])
    assert not guard.knows(["example", "node.example.org"])
    assert not guard.knows([])
    assert guard_of().knows([])


def test_names_of_a_certificate():
    certificate = {
        "subject": ((("organizationName", "Example"),), (("commonName", "node"),)),
        "subjectAltName": (
            ("DNS", "node.example"),
            ("IP Address", "10.0.0.1"),
            ("email", "a@example"),
            ("URI", "spiffe://example/node"),
        ),
    }
    assert names_of(certificate) == ["node", "node.example", "10.0.0.1", "spiffe://example/node"]
    assert names_of({}) == names_of(None) == []


def test_what_is_refused_is_told_with_a_limit():
    now_ms = 0
    with structlog.testing.capture_logs() as logs:
        guard = guard_of(log=structlog.get_logger(), now_ms=lambda: now_ms)
        for port in range(100):
            guard.tell_call(peer=f"10.0.0.1:{port}", path="/a/B", reason=NO_SECRET)
            guard.tell_peer(peer=f"10.0.0.2:{port}", names=["x"])
    assert [(one["event"], one["peer"], one["log_level"]) for one in logs] == [
        ("inner_call_refused", "10.0.0.1", "warning"),
        ("inner_peer_refused", "10.0.0.2", "warning"),
    ]
