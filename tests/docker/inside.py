"""Runs the client of `network_client.py` in a container of the stack's network.

The image of the services has Python. The client's package is pure Python, so this machine's copy of
it works there.
"""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

import kafka

from tests.docker import network_client
from tests.docker.images import SERVICES
from tests.docker.stack import Stack

CLIENT_S = 180
DIRECTORY = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """The brokers that a client in the network got (host and port by id), what it read and sent."""

    brokers: dict[int, tuple[str, int]]
    read: list[bytes]
    sent: set[bytes]


def run_client(stack: Stack, bootstrap: str, topic: str, count: int, prefix: str) -> ClientReport:
    """Runs it to its end. Fails with its output if it does not succeed."""
    container = stack.client.containers.create(
        SERVICES,
        [f"/{DIRECTORY}/network_client.py", bootstrap, topic, str(count), prefix],
        entrypoint=["python3"],
        environment={"PYTHONPATH": f"/{DIRECTORY}", "PYTHONDONTWRITEBYTECODE": "1"},
        network=stack.network,
    )
    try:
        assert container.put_archive("/", _files())
        container.start()
        code = container.wait(timeout=CLIENT_S)["StatusCode"]
        output = container.logs(stderr=False).decode()
        assert code == 0, output + container.logs(stdout=False).decode()[-3000:]
    finally:
        container.remove(force=True)
    told = json.loads(output.splitlines()[-1])
    return ClientReport(
        brokers={int(node): (host, port) for node, (host, port) in told["brokers"].items()},
        read=[value.encode() for value in told["read"]],
        sent={value.encode() for value in told["sent"]},
    )


def _files() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as made:
        for source, name in (
            (Path(kafka.__file__).parent, "kafka"),
            (Path(network_client.__file__), "network_client.py"),
        ):
            made.add(source, f"{DIRECTORY}/{name}", filter=_for_everybody)
    return archive.getvalue()


def _for_everybody(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The services' user is not this machine's."""
    if "__pycache__" in member.name:
        return None
    member.mode, member.uid, member.gid = 0o755, 0, 0
    return member
