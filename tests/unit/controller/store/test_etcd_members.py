"""Chooses the etcd member to use next."""

from pathlib import Path

from highwater.controller.store.etcd_members import COOL_DOWN_MS, EtcdMembers
from highwater.controller.store.etcd_security import EtcdSecurity
from tests.support.certificates import make_certificate


def test_a_failed_member_cools_down() -> None:
    now = [0]
    members = EtcdMembers(["a:1", "b:1", "c:1"], call_timeout_s=1.0, now_ms=lambda: now[0])
    assert members.pick().endpoint == "a:1"
    members.failed(members.pick())
    assert members.pick().endpoint == "b:1"
    now[0] += 1_000
    members.failed(members.pick())
    assert members.pick().endpoint == "c:1"
    now[0] += COOL_DOWN_MS - 1_000
    assert members.pick().endpoint == "a:1", "its time is over"


def test_when_all_have_failed_the_first_to_be_ready_is_tried() -> None:
    now = [0]
    members = EtcdMembers(["a:1", "b:1"], call_timeout_s=1.0, now_ms=lambda: now[0])
    for _ in range(2):
        members.failed(members.pick())
        now[0] += 10
    assert members.pick().endpoint == "a:1"


async def test_close_ends_watches_and_channels() -> None:
    members = EtcdMembers(["127.0.0.1:1"], call_timeout_s=1.0, now_ms=lambda: 0)
    members.pick().watch_stub()
    await members.close()
    assert members.closed
    await members.close()


async def test_after_a_failure_it_connects_by_certificates_that_have_changed(
    tmp_path: Path,
) -> None:
    cert, key = make_certificate(tmp_path)
    members = EtcdMembers(
        ["127.0.0.1:1"],
        call_timeout_s=1.0,
        now_ms=lambda: 0,
        security=EtcdSecurity(ca_file=cert, cert_file=cert, key_file=key),
    )
    member = members.pick()

    async def connection() -> tuple[object, object]:
        await member.stream_metadata()
        member.watch_stub()
        return member.client(), member._channel

    first = await connection()
    members.failed(member)
    assert await connection() == first, "nothing has changed"
    key.unlink()
    members.failed(member)
    assert await connection() == first, "a file is missing"
    make_certificate(tmp_path)
    members.failed(member)
    second = await connection()
    assert second[0] is not first[0]
    assert second[1] is not first[1]
    member.close_client()
    await members.close()
