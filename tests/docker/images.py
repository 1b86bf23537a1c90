"""The images of the stack, built from this tree on a base that can be had here."""

from __future__ import annotations

import hashlib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import docker
from docker.errors import BuildError

from tests.docker import base_image, machine
from tests.docker.engine import Engine

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "docker"
# Two checkouts may use one engine, each with images of its own.
CHECKOUT = hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]
BASE = f"highwater-test-base-{CHECKOUT}:latest"
SERVICES = f"highwater-test-{CHECKOUT}:latest"
ETCD = f"highwater-test-etcd-{CHECKOUT}:latest"
SPARK = f"highwater-test-spark-{CHECKOUT}:latest"
SILENT_S = 1800
"""How long a build may print nothing: PySpark is built from its sources."""
MAVEN_S = 660


def build(engine: Engine) -> None:
    """Builds SERVICES and ETCD. Raises NoEngineError if there can be no base."""
    _build_all(engine, [_SERVICES, _ETCD])


def build_with_spark(engine: Engine) -> None:
    """Builds SPARK, too, with the jars that Maven fetches on this machine."""
    subprocess.run(
        ["sh", str(ROOT / "tools" / "setup" / "spark_jars.sh")], check=True, timeout=MAVEN_S
    )
    _build_all(engine, [_SERVICES, _ETCD, _SPARK])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    context: Path
    dockerfile: str
    tag: str
    uses_pip: bool


_SERVICES = _Image(context=ROOT, dockerfile="deploy/Dockerfile", tag=SERVICES, uses_pip=True)
_ETCD = _Image(context=ROOT / "deploy", dockerfile="etcd.Dockerfile", tag=ETCD, uses_pip=False)
_SPARK = _Image(context=ROOT, dockerfile="deploy/spark.Dockerfile", tag=SPARK, uses_pip=True)


def _build_all(engine: Engine, images: list[_Image]) -> None:
    base_image.make(engine, BASE, CACHE)
    arguments = {"BASE": BASE} | machine.proxies()
    for_pip = machine.pip_settings() | {"PIP_CERT": str(machine.CERTIFICATES)}
    with ThreadPoolExecutor(len(images)) as pool:
        builds = [
            pool.submit(_build, engine, one, arguments | (for_pip if one.uses_pip else {}))
            for one in images
        ]
        for one in builds:
            one.result()


def _build(engine: Engine, image: _Image, arguments: dict[str, str]) -> None:
    client = docker.DockerClient(base_url=engine.environment["DOCKER_HOST"], timeout=SILENT_S)
    try:
        client.images.build(
            path=str(image.context),
            dockerfile=image.dockerfile,
            tag=image.tag,
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
