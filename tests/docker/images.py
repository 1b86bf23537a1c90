"""The images of the stack, built from this tree on a base that can be had here.

The base is the Dockerfiles' own where a registry answers. Elsewhere it is made of the
distribution's packages by debootstrap, once, and kept in .cache; it has this machine's certificates,
so that pip inside of a build reaches whatever index pip reaches outside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import docker
from docker.errors import APIError, ImageNotFound

from tests.docker.engine import Engine, NoEngineError

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "docker" / "base-bookworm.tar"
PUBLIC_BASE = "python:3.11-slim-bookworm"
OWN_BASE = "highwater-test-base:bookworm"
SERVICES = "highwater-test:latest"
ETCD = "highwater-test-etcd:latest"

CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
DEBOOTSTRAP_S = 900
PULL_S = 120
PIP_SETTINGS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_DEFAULT_TIMEOUT")


def build(engine: Engine) -> None:
    """Builds SERVICES and ETCD. Raises NoEngineError if there can be no base."""
    base = _base(engine)
    arguments = {"BASE": base} | {
        name: os.environ[name] for name in PIP_SETTINGS if os.environ.get(name)
    }
    if base == OWN_BASE:
        arguments["PIP_CERT"] = f"/{CERTIFICATES}"
    images = engine.client.images
    images.build(
        path=str(ROOT),
        dockerfile="deploy/Dockerfile",
        tag=SERVICES,
        buildargs=arguments,
        rm=True,
        forcerm=True,
    )
    images.build(
        path=str(ROOT / "deploy"),
        dockerfile="etcd.Dockerfile",
        tag=ETCD,
        buildargs={"BASE": base},
        rm=True,
        forcerm=True,
    )


def _base(engine: Engine) -> str:
    for name in (PUBLIC_BASE, OWN_BASE):
        if _has(engine.client, name):
            return name
    if not CACHE.exists():
        if _pull(engine):
            return PUBLIC_BASE
        _debootstrap()
    engine.client.api.import_image_from_file(
        str(CACHE), *OWN_BASE.split(":"), changes=['CMD ["bash"]']
    )
    return OWN_BASE


def _has(client: docker.DockerClient, name: str) -> bool:
    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def _pull(engine: Engine) -> bool:
    limited = docker.DockerClient(base_url=engine.environment["DOCKER_HOST"], timeout=PULL_S)
    try:
        limited.images.pull(PUBLIC_BASE)
    except (APIError, OSError):
        return False
    finally:
        limited.close()
    return True


def _debootstrap() -> None:
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise NoEngineError(
            f"{PUBLIC_BASE} cannot be pulled, and making a base takes root and debootstrap"
        )
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hw-base-", dir="/var/tmp") as directory:
        done = subprocess.run(
            [
                "debootstrap",
                "--variant=minbase",
                "--include=python3,python3-venv,ca-certificates",
                "bookworm",
                directory,
            ],
            capture_output=True,
            text=True,
            timeout=DEBOOTSTRAP_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        root = Path(directory)
        ours = Path(os.environ.get("SSL_CERT_FILE") or f"/{CERTIFICATES}")
        if ours.exists():
            (root / CERTIFICATES).write_bytes(ours.read_bytes())
        for package in (root / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        new = CACHE.with_suffix(".new")
        subprocess.run(
            ["tar", "--create", "--file", str(new), "--directory", directory, "."],
            timeout=DEBOOTSTRAP_S,
            check=True,
        )
        new.replace(CACHE)
