"""A stack of deploy/ as a test sees it: from outside, and with a hand on it."""

from __future__ import annotations

import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from typing import TypeVar

from docker.errors import APIError
from docker.models.containers import Container

from highwater.embed.up.ports import free_ports
from tests.docker.commands import printed
from tests.docker.engine import Engine, NoEngineError
from tests.docker.images import ETCD, ROOT, SERVICES, SPARK

PORTS = 17
INSTANCE_PORTS = 34
INTERNAL_PORT = 19092
"""Below the ports that `free_ports` gives, so that the two blocks are apart."""
GATEWAYS = {"compose.yaml": "gateway", "compose.nodes.yaml": "node"}
"""The service whose containers are gateways, by file."""
MAKES_THE_SECRET = "secret"
"""The service that ends when it has."""
OFTEN = ROOT / "tests" / "docker" / "often.yaml"
COMPOSE_S = 240
HEALTHY_S = 180

_T = TypeVar("_T")


def compose_command(environment: Mapping[str, str]) -> list[str]:
    """docker-compose, or docker's plugin. Raises NoEngineError if there is neither."""
    for command in (["docker-compose"], ["docker", "compose"]):
        if shutil.which(command[0]) is None:
            continue
        asked = subprocess.run(
            [*command, "version"],
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
        )
        if asked.returncode == 0:
            return command
    raise NoEngineError("neither docker-compose nor docker's compose plugin is installed")


class Stack:
    """One project. `up` may be called again, with other scales or files.

    `overlays` are files of deploy/ that belong to it in every call.
    """

    def __init__(
        self,
        engine: Engine,
        command: list[str],
        *,
        file: str = "compose.yaml",
        overlays: tuple[str, ...] = (),
    ) -> None:
        self._files = (file, *overlays)
        self.gateways = GATEWAYS[file]
        self.client = engine.client
        self.project = f"hwtest{uuid.uuid4().hex[:8]}"
        self.host = engine.address
        self.port = free_ports("127.0.0.1", PORTS + INSTANCE_PORTS)
        self.instance_port = self.port + PORTS
        self.bootstrap = f"{self.host}:{self.port}"
        self.internal_bootstrap = f"{self.gateways}:{INTERNAL_PORT}"
        self.network = f"{self.project}_default"
        self.client_address = engine.client_address
        self._command = command
        taken = range(self.port, self.instance_port + INSTANCE_PORTS)
        pages = free_ports("127.0.0.1", 2, apart=taken)
        self.environment = engine.environment | {
            "HIGHWATER_IMAGE": SERVICES,
            "HIGHWATER_ETCD_IMAGE": ETCD,
            "HIGHWATER_HOST": self.host,
            "HIGHWATER_BIND": "127.0.0.1" if self.host == "127.0.0.1" else "0.0.0.0",
            "HIGHWATER_PORT": str(self.port),
            "HIGHWATER_PORT_LAST": str(self.port + PORTS - 1),
            "HIGHWATER_INSTANCE_PORT": str(self.instance_port),
            "HIGHWATER_INSTANCE_PORT_LAST": str(self.instance_port + INSTANCE_PORTS - 1),
            "HIGHWATER_INTERNAL_PORT": str(INTERNAL_PORT),
            "HIGHWATER_SPARK_IMAGE": SPARK,
            "HIGHWATER_SPARK_PORT": str(pages),
            "HIGHWATER_SPARK_HISTORY_PORT": str(pages + 1),
        }

    def up(self, *, overlays: tuple[str, ...] = (), **scales: int) -> None:
        """Returns when every container is healthy."""
        scaling = [word for name in scales for word in ("--scale", f"{name}={scales[name]}")]
        self._compose("up", "-d", *scaling, overlays=overlays)
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        """Returns when every container is."""
        wait_for(self._all_healthy, HEALTHY_S, self.describe)

    def stop(self) -> None:
        """Ends every service in good order; containers and data stay."""
        self._compose("stop")

    def start(self) -> None:
        """Starts what was stopped. Returns when every container is healthy."""
        self._compose("start")
        self.wait_until_healthy()

    def down(self) -> None:
        """Takes everything away, data too, without giving anybody time."""
        self._compose("kill")
        self._compose("down", "--volumes", "--remove-orphans", "--timeout", "5")

    def containers(self, service: str | None = None) -> list[Container]:
        """All of the project's that shall run, or a service's, by number, running or not."""
        labels = [f"com.docker.compose.project={self.project}"]
        if service is not None:
            labels.append(f"com.docker.compose.service={service}")
        # A job's container may go between the list and the question about it.
        found = self.client.containers.list(
            all=True, filters={"label": labels}, ignore_removed=True
        )
        if service is None:
            ends = f"{self.project}_{MAKES_THE_SECRET}_", f"{self.project}-{MAKES_THE_SECRET}-"
            found = [one for one in found if not one.name.startswith(ends)]
        return sorted(found, key=lambda one: one.name)

    def metric(self, container: Container, name: str) -> float:
        """What a service tells at /metrics, without `highwater_`."""
        script = (
            "import urllib.request as r;"
            "print(r.urlopen('http://127.0.0.1:9600/metrics', timeout=10).read().decode())"
        )
        lines = printed(container, ["python3", "-c", script]).splitlines()
        pairs = (line.rpartition(" ") for line in lines)
        values = {key: value for key, _, value in pairs if not key.startswith("#")}
        return float(values[f"highwater_{name}"])

    def describe(self) -> str:
        """States and last words of all containers, for failures."""
        return "\n".join(
            f"--- {one.name}: {one.status} {health_of(one)}\n"
            + one.logs(tail=5).decode("utf-8", "replace")
            for one in self.containers()
        )

    def _all_healthy(self) -> bool:
        return all(health_of(one) == "healthy" or _passes(one) for one in self.containers())

    def command(self, *words: str, overlays: tuple[str, ...] = ()) -> list[str]:
        """The command line of compose for this project, to be run in `environment`."""
        paths = [ROOT / "deploy" / name for name in (*self._files, *overlays)] + [OFTEN]
        files = [word for path in paths for word in ("--file", str(path))]
        return [*self._command, "--project-name", self.project, *files, *words]

    def _compose(self, *words: str, overlays: tuple[str, ...] = ()) -> None:
        done = subprocess.run(
            self.command(*words, overlays=overlays),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMPOSE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:] + self.describe()


def _passes(container: Container) -> bool:
    """Whether it is healthy by its own probe; the engine has none before an interval is over."""
    if health_of(container) != "starting":
        return False
    _, *probe = container.attrs["Config"]["Healthcheck"]["Test"]
    try:
        code: int = container.exec_run(probe)[0]
    except APIError:
        return False  # It has ended meanwhile.
    return code == 0


def health_of(container: Container) -> str:
    """healthy, starting, unhealthy; empty while it does not run."""
    state = container.attrs["State"]
    return state.get("Health", {}).get("Status", "") if state["Running"] else ""


def wait_for(
    condition: Callable[[], _T], timeout_s: float, describe: Callable[[], str] = str
) -> _T:
    """What the condition gives once that is something."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s\n{describe()}"
        time.sleep(0.2)
    return value
