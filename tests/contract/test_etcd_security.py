"""The etcd driver on a server that requires TLS, client certificates and a user."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.controller.store.etcd_security import PLAIN, EtcdSecurity
from highwater.controller.store.factory import etcd_store
from highwater.controller.store.port import CompactedError, MetadataStore, Put
from highwater.model.errors import UsageError
from tests.support.certificates import make_certificate
from tests.support.etcd import VERSIONS, EtcdMemberProcess, EtcdTls, etcd_missing, etcd_server

pytestmark = [pytest.mark.etcd, pytest.mark.slow]

_USER, _PASSWORD = "controller", "open sesame"
_PREFIX = "/secured/"


def _certificates(directory: Path) -> EtcdTls:
    """A self-signed certificate for 127.0.0.1, which is also the authority."""
    cert, key = make_certificate(directory)
    return EtcdTls(ca=cert, cert=cert, key=key)


@pytest.fixture(scope="module", params=list(VERSIONS))
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EtcdMemberProcess]:
    """Only root and our user have access, the user only to the prefix."""
    if why := etcd_missing(request.param):
        pytest.skip(why)
    directory = tmp_path_factory.mktemp("secured")
    with etcd_server(directory, version=request.param, tls=_certificates(directory)) as server:
        server.ctl("user", "add", "root:of-the-test")
        server.ctl("user", "add", f"{_USER}:{_PASSWORD}")
        server.ctl("user", "grant-role", "root", "root")
        server.ctl("role", "add", "controllers")
        server.ctl("role", "grant-permission", "controllers", "--prefix=true", "readwrite", _PREFIX)
        server.ctl("user", "grant-role", _USER, "controllers")
        server.ctl("auth", "enable")
        yield server


@pytest.fixture
def security(secured: EtcdMemberProcess) -> EtcdSecurity:
    tls = secured.tls
    assert tls is not None
    return EtcdSecurity(
        ca_file=tls.ca,
        cert_file=tls.cert,
        key_file=tls.key,
        user=_USER,
        password=_PASSWORD,
    )


def _store(server: EtcdMemberProcess, security: EtcdSecurity) -> MetadataStore:
    return etcd_store(
        [server.endpoint],
        prefix=_PREFIX,
        client_id="test",
        call_timeout_ms=1_000,
        security=security,
    )


async def _watch_into(store: MetadataStore, start: int, seen: list[str]) -> None:
    async with contextlib.aclosing(store.watch("w/", start)) as watch:
        async for batch in watch:
            seen += [event.key for event in batch.events]


async def _until(seen: list[str], expected: list[str]) -> None:
    async with asyncio.timeout(15):
        while seen != expected:
            await asyncio.sleep(0.05)


async def test_everything_works_and_goes_on_after_tokens_are_forgotten(
    secured: EtcdMemberProcess, security: EtcdSecurity
) -> None:
    store = _store(secured, security)
    await store.start()
    seen: list[str] = []
    try:
        start = (await store.range("")).revision + 1
        lease = await store.grant(30_000)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch_into(store, start, seen))
            await store.txn((), [Put(key="w/a", value=b"1", lease=lease)])
            await _until(seen, ["w/a"])
            assert await store.keep_alive(lease) > 0
            # A member keeps tokens in memory only.
            await asyncio.to_thread(secured.kill)
            secured.start()
            result = await store.txn((), [Put(key="w/b", value=b"2")])
            assert result.succeeded
            await _until(seen, ["w/a", "w/b"])
            assert await _keep_alive_soon(store, lease) > 0
            watching.cancel()
        assert [entry.key for entry in (await store.range("w/")).entries] == ["w/a", "w/b"]
        await store.revoke(lease)
        assert [entry.key for entry in (await store.range("w/")).entries] == ["w/b"]
    finally:
        await store.close()


async def test_certificates_are_changed_while_it_is_used(
    secured: EtcdMemberProcess, security: EtcdSecurity
) -> None:
    """Those of the authority, of etcd and of the client at once, none of which trusts the former ones."""
    assert security.cert_file is not None
    store = _store(secured, security)
    await store.start()
    seen: list[str] = []
    try:
        start = (await store.range("")).revision + 1
        lease = await store.grant(30_000)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch_into(store, start, seen))
            await store.txn((), [Put(key="w/d", value=b"1")])
            await _until(seen, ["w/d"])
            make_certificate(security.cert_file.parent)
            await asyncio.to_thread(secured.kill)
            secured.start()
            await _put_soon(store, Put(key="w/e", value=b"2"))
            await _until(seen, ["w/d", "w/e"])
            assert await _keep_alive_soon(store, lease) > 0
            watching.cancel()
    finally:
        await store.close()


async def _put_soon(store: MetadataStore, put: Put) -> None:
    """The first call meets the former connection; the controller retries as well."""
    from highwater.controller.store.port import StoreUnavailableError

    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(StoreUnavailableError):
                await store.txn((), [put])
                return
            await asyncio.sleep(0.1)


async def test_a_user_of_the_prefix_may_compact(
    secured: EtcdMemberProcess, security: EtcdSecurity
) -> None:
    store = _store(secured, security)
    await store.start()
    try:
        last = (await store.txn((), [Put(key="w/c", value=b"1")])).revision
        later = (await store.txn((), [Put(key="w/c", value=b"2")])).revision
        await store.compact(later)
        with pytest.raises(CompactedError):
            await _watch_into(store, last, [])
    finally:
        await store.close()


async def _keep_alive_soon(store: MetadataStore, lease: int) -> int:
    """The first call may still use the old token; the controller retries as well."""
    from highwater.controller.store.port import StoreUnavailableError

    async with asyncio.timeout(10):
        while True:
            try:
                return await store.keep_alive(lease)
            except StoreUnavailableError:
                await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    "mistake",
    ["plain", "no certificate", "wrong password", "another authority"],
)
async def test_wrong_credentials_are_operator_errors(
    secured: EtcdMemberProcess, security: EtcdSecurity, tmp_path: Path, mistake: str
) -> None:
    if mistake == "plain":
        wrong = PLAIN
    elif mistake == "no certificate":
        wrong = replace(security, cert_file=None, key_file=None)
    elif mistake == "wrong password":
        wrong = replace(security, password="guess")
    else:
        wrong = replace(security, ca_file=_certificates(tmp_path).ca)
    store = _store(secured, wrong)
    with pytest.raises(UsageError, match="cannot use etcd"):
        await store.start()
    await store.close()


def test_a_missing_file_is_an_operator_error(tmp_path: Path) -> None:
    missing = EtcdSecurity(ca_file=tmp_path / "none.pem")
    with pytest.raises(UsageError, match=r"cannot read .*none\.pem: No such file"):
        etcd_store(
            ["127.0.0.1:1"], prefix="/", client_id="x", call_timeout_ms=100, security=missing
        )
