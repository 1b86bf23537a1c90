"""What can be said of the stack and of its tests where no engine runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.docker.engine import REQUIRED, NoEngineError, skip_or_fail
from tests.docker.images import ROOT
from tests.docker.stack import GATEWAYS, compose_command

pytestmark = [pytest.mark.docker, pytest.mark.timeout(150)]

RUN_S = 120
FILES = pytest.mark.parametrize("file", ["compose.yaml", "compose.nodes.yaml"])
SPARK = "compose.spark.yaml"
SPARK_SERVICES = {"spark-master", "spark-worker", "spark-history", "spark-job"}


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
    of_instances = range(19000, 19034)
    assert sorted(map(int, published)) == sorted([*block, *of_instances])
    assert setting(told, "HIGHWATER_BALANCER_PORT") == str(block[0])
    assert setting(told, "HIGHWATER_BALANCER_PORT_LAST") == str(block[-1])
    assert setting(told, "HIGHWATER_GATEWAY_PORT") == str(block[0])


@FILES
def test_the_balancer_follows_instances_and_their_ports_can_be_chosen(compose, file):
    chosen = {"HIGHWATER_INSTANCE_PORT": "20000", "HIGHWATER_INSTANCE_PORT_LAST": "20001"}
    balancer = services(config(compose, file, chosen))["balancer"]
    published = re.findall(r"(?:127\.0\.0\.1:|published: \D?)(\d+)", balancer)
    assert sorted(map(int, published))[-2:] == [20000, 20001]
    assert re.search(r"HIGHWATER_BALANCER_CONTROLLERS: .*controller-1:9300.*controller-2", balancer)
    assert setting(balancer, "HIGHWATER_BALANCER_INNER__SECRET_FILE") == "secret"
    assert "secret:/secret:ro" in balancer


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


@pytest.mark.parametrize("file", list(GATEWAYS))
def test_a_spark_cluster_leaves_the_stack_as_it_is(compose, file):
    alone = services(config(compose, file, {}))
    told = config(compose, file, {}, SPARK)
    beside = services(told)
    assert beside.keys() - alone.keys() == SPARK_SERVICES
    assert {name: beside[name] for name in alone} == alone
    volumes = re.findall(r"^  ([\w-]+): ", told.partition("\nvolumes:\n")[2], re.MULTILINE)
    assert {"lake", "spark-events"} < set(volumes)


@pytest.mark.parametrize(("file", "gateways"), GATEWAYS.items())
@pytest.mark.parametrize("port", ["29092", "19092"])
def test_jobs_bootstrap_at_the_internal_listener_of_the_stack(compose, file, gateways, port):
    chosen = {"HIGHWATER_INTERNAL_PORT": port, "HIGHWATER_SPARK_GATEWAYS": gateways}
    told = config(compose, file, chosen, SPARK)
    assert setting(told, "HIGHWATER_GATEWAY_LISTENERS__INTERNAL__PORT") == port
    found = services(told)
    assert f"BOOTSTRAP_SERVERS: {gateways}:{port}\n" in found["spark-job"]
    assert "LISTENERS__INTERNAL__HOST" in found[gateways], "these containers are the gateways"
    if file == "compose.yaml":
        assert config(compose, file, {"HIGHWATER_INTERNAL_PORT": port}, SPARK) == told


def test_jobs_and_workers_share_what_jobs_write_and_run_one_image(compose):
    found = services(config(compose, "compose.yaml", {}, SPARK))
    assert {name for name, text in found.items() if "lake:/lake" in text} == {
        "spark-worker",
        "spark-job",
    }
    settings = (ROOT / "deploy/spark/conf/spark-defaults.conf").read_text(encoding="utf-8")
    (events,) = set(re.findall(r"^spark\.\S+[dD]ir\S* +file://(\S+)$", settings, re.MULTILINE))
    assert {name for name, text in found.items() if f"spark-events:{events}:" in text} == {
        "spark-history",
        "spark-job",
    }
    for name in SPARK_SERVICES:
        assert "image: highwater-spark\n" in found[name]
        assert "read_only: true\n" in found[name], "as the services of the stack"
        assert "cap_drop:\n" in found[name]


def test_only_pages_of_the_spark_cluster_are_published_and_only_here(compose):
    found = services(config(compose, "compose.yaml", {}, SPARK))
    # Its healthchecks name the same ports.
    ports = {name: text.partition("    ports:\n")[2] for name, text in found.items()}
    published = {
        name: re.findall(
            r"(?:127\.0\.0\.1:|published: \D?)(\d+)", ports[name].partition("\n    r")[0]
        )
        for name in SPARK_SERVICES
        if ports[name]
    }
    assert published == {"spark-master": ["8080"], "spark-history": ["18080"]}


def test_both_dockerfiles_build_with_the_same_arguments():
    heads = [
        re.findall(r"^(?:ARG|ENV|    UV_)[^\n]*", text.partition("\nCOPY")[0], re.MULTILINE)
        for text in (
            (ROOT / "deploy" / name).read_text(encoding="utf-8")
            for name in ("Dockerfile", "spark.Dockerfile")
        )
    ]
    assert len(heads[0]) > 8
    assert heads[0] == heads[1]


def config(compose: list[str], file: str, chosen: dict[str, str], *overlays: str) -> str:
    """The files as compose understands them, with the services that `up` does not start."""
    ours = ("HIGHWATER_", "COMPOSE_")
    rest = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    files = [word for name in (file, *overlays) for word in ("--file", str(ROOT / "deploy" / name))]
    profile = ["--profile", "job"] if SPARK in overlays else []
    done = subprocess.run(
        [*compose, *files, *profile, "config"],
        env=rest | chosen,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def services(told: str) -> dict[str, str]:
    """The text of each service by its name."""
    within = re.search(r"^services:\n((?:  .*\n)+)", told, re.MULTILINE)
    assert within is not None
    blocks = re.split(r"^  ([\w-]+):\n", within[1], flags=re.MULTILINE)
    return dict(zip(blocks[1::2], blocks[2::2], strict=True))


def setting(told: str, name: str) -> str:
    found = set(re.findall(rf"\b{name}: \W?(\w+)", told))
    assert len(found) == 1, (name, found)
    return found.pop()
