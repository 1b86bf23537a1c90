"""Ports between services refuse strangers: without the secret, without a certificate, in processes.

The cluster works on meanwhile: clients write and read while a node is killed and comes back.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from highwater.hop.unix_socket import SOCKET_FILE
from highwater.rpc.grpcio_guard import ProvingChannel, client_credentials
from highwater.rpc.inner import Inner
from highwater.runtime.inner_settings import InnerSettings
from tests.cluster.runner import HOST, Up, run
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.certificates import Authority, make_authority
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until

SECTIONS = ("controller", "quota", "partition", "gateway")
OTHER_SECRET = "o" * 40
CALL_S = 10.0
BACK_S_MAX = 60.0
REFUSED = {
    "secret": {grpc.StatusCode.UNAUTHENTICATED},
    # The handshake fails, which a client of TLS 1.3 hears of a moment later.
    "certificates": {grpc.StatusCode.UNAVAILABLE},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A cluster whose services show one another a secret, or certificates."""

    kind: str
    up: Up
    authority: Authority
    own: InnerSettings
    """What its services show."""
    strangers: dict[str, InnerSettings] = field(default_factory=dict)


def in_modes(kind: str) -> list[Any]:
    """A cluster of each form with this."""
    full = [pytest.param((kind, mode), marks=pytest.mark.full) for mode in ("combined3", "grpcio3")]
    return [(kind, "nodes3"), *full]


CERTIFICATES = in_modes("certificates")


@pytest.fixture(scope="module", params=[*in_modes("secret"), *CERTIFICATES], ids="-".join)
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    kind, mode = request.param
    directory = tmp_path_factory.mktemp("inner")
    authority, strange = (make_authority(directory / name) for name in ("ours", "strange"))
    cert, key = authority.issue("cluster.example")
    other = directory / "other"
    other.write_text(OTHER_SECRET)
    data_secret = directory / "data" / "inner.secret"
    settings: list[str] = []
    if kind == "certificates":
        # Unix sockets need no certificates; here all goes by TCP.
        settings += [f"{section}.hop.unix_sockets=false" for section in ("partition", "gateway")]
        for section in SECTIONS:
            settings += [
                f"{section}.inner.cert_file={cert}",
                f"{section}.inner.key_file={key}",
                f"{section}.inner.ca_file={authority.certificate}",
                f'{section}.inner.names=["cluster.example"]',
                f"{section}.inner.secret_file=",
            ]
    up = Up(mode, directory, extra=tuple(word for one in settings for word in ("--set", one)))
    own = InnerSettings(cert_file=cert, key_file=key, ca_file=authority.certificate)
    their_cert, their_key = strange.issue("cluster.example")
    forged = own.model_copy(update={"cert_file": their_cert, "key_file": their_key})
    strangers = {"plain": InnerSettings(), "other secret": InnerSettings(secret_file=other)}
    if kind == "certificates":
        strangers["other authority"] = forged
    try:
        up.start()
        yield Guarded(
            kind=kind,
            up=up,
            authority=authority,
            own=own if kind == "certificates" else InnerSettings(secret_file=data_secret),
            strangers=strangers,
        )
    finally:
        up.stop()


def inner_ports(up: Up) -> dict[str, int]:
    """The gRPC port of each process that has one: what it listens on, but for clients' and metrics."""
    found = {}
    metrics = {
        int(port) for port in re.findall(r":(\d+)", (up.data_dir / "metrics.json").read_text())
    }
    clients = range(up.port, up.port + up.node_count + 1)
    for name, pid in up.pids().items():
        listening = {
            (one.laddr.ip, one.laddr.port)
            for one in psutil.Process(pid).net_connections("tcp")
            if one.status == psutil.CONN_LISTEN
        }
        inner = [each for each in listening if each[1] not in metrics and each[1] not in clients]
        if not name.startswith("gateway"):
            [(address, port)] = inner
            assert address.removeprefix("::ffff:") == HOST, "no other host reaches it"
            found[name] = port
        else:
            assert inner == []
    return found


def ask(port: int, shown: InnerSettings) -> grpc.StatusCode:
    """The code of a call that shows this."""
    inner = Inner(shown)
    credentials = client_credentials(inner.client_tls)
    address = f"{HOST}:{port}"
    with (
        grpc.insecure_channel(address)
        if credentials is None
        else grpc.secure_channel(address, credentials) as channel
    ):
        stub = health_pb2_grpc.HealthStub(ProvingChannel(channel, lambda: inner.proof))
        try:
            stub.Check(health_pb2.HealthCheckRequest(), timeout=CALL_S)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return grpc.StatusCode.OK


def test_every_inner_port_refuses_strangers_and_serves_the_cluster(guarded: Guarded) -> None:
    ports = inner_ports(guarded.up)
    nodes = {guarded.up.node_process(node) for node in (1, 2, 3)}
    assert ports.keys() == {"controller", "quota", *nodes}
    for name, port in ports.items():
        assert ask(port, guarded.own) is grpc.StatusCode.OK, name
        for stranger, shown in guarded.strangers.items():
            assert ask(port, shown) in REFUSED[guarded.kind], (name, stranger)


@pytest.mark.parametrize("guarded", CERTIFICATES, indirect=True, ids="-".join)
def test_a_name_that_is_not_allowed(guarded: Guarded) -> None:
    shown = somebody_else(guarded)
    refused = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE}
    for name, port in inner_ports(guarded.up).items():
        assert ask(port, shown) in refused, name


def somebody_else(guarded: Guarded) -> InnerSettings:
    """A certificate of the cluster's authority for a name that is not allowed."""
    cert, key = guarded.authority.issue("somebody.else")
    return guarded.own.model_copy(update={"cert_file": cert, "key_file": key})


def test_sockets_and_secrets_are_for_this_user_only(guarded: Guarded) -> None:
    data = guarded.up.data_dir
    sockets = list(data.rglob(SOCKET_FILE))
    wanted = guarded.kind == "secret" and guarded.up.mode != "grpcio3"
    assert len(sockets) == (3 if wanted else 0)
    for path in (*sockets, data / "inner.secret"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for path in sockets:
        assert not path.parent.stat().st_mode & 0o022
        refused = ask_unix(path)
        assert refused is grpc.StatusCode.UNAUTHENTICATED, "this user without the secret"


def ask_unix(path: Path) -> grpc.StatusCode:
    with grpc.insecure_channel(f"unix:{path}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(), timeout=CALL_S)
    code: grpc.StatusCode = caught.value.code()
    return code


def test_records_pass_while_a_node_is_killed_and_comes_back(guarded: Guarded) -> None:
    up = guarded.up
    topic = make_replicated_topic(
        up.bootstrap, "t", partitions=6, configs={"min.insync.replicas": "2"}
    )
    producer = NumberedProducer(up.bootstrap, topic)
    producer.send(200)
    producer.flush()
    name = up.node_process(2)
    old = up.pids()[name]
    os.kill(old, signal.SIGKILL)
    producer.send(200)
    producer.flush()
    wait_until(lambda: up.pids().get(name, old) != old, timeout_s=BACK_S_MAX, what="another node")
    wait_until(
        lambda: listed(up).count("alive") == 3, timeout_s=BACK_S_MAX, what="three nodes that live"
    )
    producer.send(200)
    producer.flush()
    assert not producer.errors
    assert set(read_all(up.bootstrap, topic, 6)) == producer.acknowledged
    assert len(producer.acknowledged) == 600


def listed(up: Up) -> str:
    """What the command says, which finds in the data directory what it has to show."""
    done = run("node", "list", "--data-dir", str(up.data_dir))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_command_of_a_stranger_is_told_why(guarded: Guarded) -> None:
    address = (guarded.up.data_dir / "controller.address").read_text()
    refused = run("node", "list", "--controller", address)
    assert refused.returncode == 2
    wanted = "--secret-file" if guarded.kind == "secret" else "--tls"
    assert wanted in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_floods_of_strangers_do_not_keep_the_cluster_from_its_work(guarded: Guarded) -> None:
    up = guarded.up
    ports = inner_ports(up)
    silent = []
    try:
        for port in ports.values():
            silent += [socket.create_connection((HOST, port), timeout=CALL_S) for _ in range(50)]
            for _ in range(30):
                ask(port, guarded.strangers["plain"])
        topic = make_replicated_topic(up.bootstrap, "f", partitions=3)
        producer = NumberedProducer(up.bootstrap, topic)
        producer.send(100)
        producer.flush()
        assert not producer.errors
        assert listed(up).count("alive") == 3
    finally:
        for one in silent:
            one.close()


def test_the_log_says_who_was_refused_and_nobodys_secret(guarded: Guarded) -> None:
    for port in inner_ports(guarded.up).values():
        ask(
            port, guarded.strangers["plain"] if guarded.kind == "secret" else somebody_else(guarded)
        )
    log = guarded.up.process.log_path.read_text()
    refused = "inner_call_refused" if guarded.kind == "secret" else "inner_peer_refused"
    told = [line for line in log.splitlines() if refused in line]
    assert told
    assert all(HOST in line or "a unix socket" in line for line in told), told
    assert len(told) < 60, "with a limit"
    assert OTHER_SECRET not in log
    assert (guarded.up.data_dir / "inner.secret").read_text().strip() not in log
    assert "Bearer" not in log
