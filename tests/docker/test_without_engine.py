"""What can be said of the stack and of its tests where no engine runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.docker.engine import REQUIRED, NoEngineError, skip_or_fail
from tests.docker.images import ROOT
from tests.docker.stack import compose_command

pytestmark = [pytest.mark.docker, pytest.mark.timeout(150)]

RUN_S = 120
FILES = pytest.mark.parametrize("file", ["compose.yaml", "compose.nodes.yaml"])


@pytest.fixture(scope="module")
def compose() -> list[str]:
    try:
        return compose_command(os.environ)
    except NoEngineError as error:
        skip_or_fail(error)


@pytest.mark.parametrize("required", [False, True])
def test_where_no_engine_can_run_tests_fail_only_if_they_have_to_run(tmp_path, required):
    """pytest on the real tests, on a machine without any program."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in (REQUIRED, "PYTEST_ADDOPTS")
    } | {"PATH": str(tmp_path), "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    if required:
        environment[REQUIRED] = "required"
    name = "test_every_node_has_a_port_of_the_block"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"tests/docker/test_compose.py::{name}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == (1 if required else 0), done.stdout + done.stderr
    assert ("1 error in" if required else "1 skipped in") in done.stdout
    assert "no Docker engine answers, and dockerd is not installed" in done.stdout


@FILES
@pytest.mark.parametrize(
    ("chosen", "block"),
    [
        ({}, range(9092, 9109)),
        ({"HIGHWATER_PORT_LAST": "9130"}, range(9092, 9131)),
        ({"HIGHWATER_PORT": "19092", "HIGHWATER_PORT_LAST": "19094"}, range(19092, 19095)),
    ],
)
def test_the_balancer_listens_on_the_ports_that_are_published(compose, file, chosen, block):
    told = config(compose, file, chosen)
    published = re.findall(r"(?:127\.0\.0\.1:|published: \D?)(\d+)", told)
    assert sorted(map(int, published)) == list(block)
    assert setting(told, "HIGHWATER_BALANCER_PORT") == str(block[0])
    assert setting(told, "HIGHWATER_BALANCER_PORT_LAST") == str(block[-1])
    assert setting(told, "HIGHWATER_GATEWAY_PORT") == str(block[0])


@FILES
def test_containers_of_the_network_have_a_listener_of_their_own(compose, file):
    told = config(compose, file, {})
    assert setting(told, "HIGHWATER_GATEWAY_LISTENERS__INTERNAL__PORT") == "29092"
    assert re.search(r"published: \D?29092", told) is None
    # Each container is told by its id, so that a client meets the one that serves a node.
    assert "ADVERTISED_HOST: 127.0.0.1" in told
    assert "INTERNAL__ADVERTISED" not in told
    assert "hostname:" not in told


@FILES
def test_etcd_compacts_itself(compose, file):
    told = config(compose, file, {})
    assert setting(told, "ETCD_AUTO_COMPACTION_MODE") == "periodic"
    assert setting(told, "ETCD_AUTO_COMPACTION_RETENTION") == "1h"


def config(compose: list[str], file: str, chosen: dict[str, str]) -> str:
    """The file as compose understands it."""
    ours = ("HIGHWATER_", "COMPOSE_")
    rest = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [*compose, "--file", str(ROOT / "deploy" / file), "config"],
        env=rest | chosen,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def setting(told: str, name: str) -> str:
    found = set(re.findall(rf"\b{name}: \W?(\w+)", told))
    assert len(found) == 1, (name, found)
    return found.pop()
