"""The images of the stack, built from this tree on a base that can be had here."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
from docker.errors import BuildError

from tests.docker import base_image, machine
from tests.docker.engine import CALL_S, Engine

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "docker"
# Two checkouts may use one engine, each with images of its own.
CHECKOUT = hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]
BASE = f"highwater-test-base-{CHECKOUT}:latest"
SERVICES = f"highwater-test-{CHECKOUT}:latest"
ETCD = f"highwater-test-etcd-{CHECKOUT}:latest"


def build(engine: Engine) -> None:
    """Builds SERVICES and ETCD. Raises NoEngineError if there can be no base."""
    base_image.make(engine, BASE, CACHE)
    arguments = {"BASE": BASE} | machine.proxies()
    for_pip = machine.pip_settings() | {"PIP_CERT": str(machine.CERTIFICATES)}
    with ThreadPoolExecutor(2) as pool:
        builds = [
            pool.submit(_build, engine, ROOT, "deploy/Dockerfile", SERVICES, arguments | for_pip),
            pool.submit(_build, engine, ROOT / "deploy", "etcd.Dockerfile", ETCD, arguments),
        ]
        for one in builds:
            one.result()


def _build(
    engine: Engine, context: Path, dockerfile: str, tag: str, arguments: dict[str, str]
) -> None:
    client = docker.DockerClient(base_url=engine.environment["DOCKER_HOST"], timeout=CALL_S)
    try:
        client.images.build(
            path=str(context),
            dockerfile=dockerfile,
            tag=tag,
            buildargs=arguments,
            network_mode=engine.build_network,
            rm=True,
            forcerm=True,
        )
    except BuildError as error:
        lines = [line.get("stream", "") for line in error.build_log]
        raise AssertionError(f"{error}\n{''.join(lines)[-3000:]}") from None
    finally:
        client.close()
