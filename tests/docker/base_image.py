"""The image that the stack's images are built on: Python on this machine's terms.

It is the Dockerfiles' own base where a registry answers. Elsewhere it is made by debootstrap of the
release that this machine runs, from the mirror that it uses, once, and kept in .cache. Either way
it gets the machine's certificates, so that pip inside of a build reaches what pip reaches outside.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker
from docker.errors import APIError

from tests.docker import machine
from tests.docker.engine import WORK, Engine, NoEngineError

PUBLIC_BASE = "python:3.11-slim-bookworm"
PACKAGES = ("python3", "python3-venv", "ca-certificates")
OLDEST_PYTHON = (3, 11)
DEBOOTSTRAP_S = 600
PULL_S = 120


def make(engine: Engine, tag: str, cache: Path) -> None:
    """Gives the engine a base under that tag. Raises NoEngineError if none can be had here."""
    release = machine.distribution()
    kept = None
    if release is not None:
        name = f"{release.suite} {release.mirror} {release.components} {PACKAGES}"
        kept = cache / f"base-{hashlib.sha256(name.encode()).hexdigest()[:12]}.tar"
    if kept is not None and kept.exists():
        base = _import(engine, kept, tag)
    elif _pull(engine):
        base = PUBLIC_BASE
    else:
        base = _import(engine, _debootstrap(release, kept), tag)
    _add_certificates(engine, base, tag)


def _pull(engine: Engine) -> bool:
    """True if the engine has the public base, or gets it from a registry."""
    limited = docker.DockerClient(base_url=engine.environment["DOCKER_HOST"], timeout=PULL_S)
    try:
        if not limited.images.list(PUBLIC_BASE):
            limited.images.pull(PUBLIC_BASE)
    except (APIError, OSError):
        return False
    finally:
        limited.close()
    return True


def _import(engine: Engine, archive: Path, tag: str) -> str:
    """The name of an image of that file system."""
    repository = tag.partition(":")[0]
    engine.client.api.import_image_from_file(
        str(archive), repository, "bare", changes=['CMD ["bash"]']
    )
    return f"{repository}:bare"


def _debootstrap(release: machine.Distribution | None, archive: Path | None) -> Path:
    if release is None or archive is None:
        raise NoEngineError(f"{PUBLIC_BASE} cannot be pulled, and this is no Debian to make a base")
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise NoEngineError(
            f"{PUBLIC_BASE} cannot be pulled, and making a base takes root and debootstrap"
        )
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hw-base-", dir=WORK) as directory:
        root = Path(directory)
        done = subprocess.run(
            [
                "debootstrap",
                "--variant=minbase",
                f"--include={','.join(PACKAGES)}",
                f"--components={','.join(release.components)}",
                *(release.suite, directory, release.mirror),
            ],
            env=os.environ | machine.proxies(),
            capture_output=True,
            text=True,
            timeout=DEBOOTSTRAP_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        _check_python(root, release)
        for package in (root / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        new = archive.with_suffix(f".{os.getpid()}")
        subprocess.run(
            ["tar", "--create", "--file", str(new), "--directory", directory, "."],
            timeout=DEBOOTSTRAP_S,
            check=True,
        )
        new.replace(archive)
    return archive


def _check_python(root: Path, release: machine.Distribution) -> None:
    name = (root / "usr/bin/python3").readlink().name
    version = tuple(int(part) for part in name.removeprefix("python").split("."))
    if version < OLDEST_PYTHON:
        raise NoEngineError(f"{PUBLIC_BASE} cannot be pulled, and {release.suite} has {name}")


def _add_certificates(engine: Engine, base: str, tag: str) -> None:
    """Tags the base with this machine's certificates in it; an index may be behind a proxy."""
    files = {"Dockerfile": f"FROM {base}\n".encode()}
    bundle = machine.certificates()
    if bundle is not None:
        files["bundle"] = bundle.read_bytes()
        files["Dockerfile"] += f"COPY bundle {machine.CERTIFICATES}\n".encode()
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    context.seek(0)
    engine.client.images.build(fileobj=context, custom_context=True, tag=tag, rm=True)
