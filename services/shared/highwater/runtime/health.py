"""Health for peers and orchestrators: grpc.health.v1 and readiness checks.

Readiness is a set of named checks ("metadata", "store"), each a cheap function on the loop.
Liveness needs no check: a process whose loop does not run cannot answer.
"""

from collections.abc import Callable, Mapping

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc


class Readiness:
    """Named checks; ready when all succeed. Owned by one service, read by its endpoints."""

    def __init__(self) -> None:
        self._checks: dict[str, Callable[[], bool]] = {}

    def add(self, name: str, check: Callable[[], bool]) -> None:
        """Adds a check; its name is reported when it fails."""
        assert name not in self._checks, f"a check named {name} is there already"
        self._checks[name] = check

    def results(self) -> Mapping[str, bool]:
        """Every check with its current result, in the order of adding."""
        return {name: check() for name, check in self._checks.items()}

    def ready(self) -> bool:
        """True if every check succeeds."""
        return all(check() for check in self._checks.values())


class GrpcHealth:
    """The grpc.health.v1 service of one server.

    Names are unknown (NOT_FOUND) until the first `set_serving`, so call it before the server
    starts. The empty name stands for the whole server, as the health protocol has it.
    """

    def __init__(self, services: tuple[str, ...] = ()) -> None:
        self._names = ("", *services)
        self._servicer = health.aio.HealthServicer()

    def add_to_server(self, server: grpc.aio.Server) -> None:
        """Adds the Health service; before the server starts."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def set_serving(self, *, serving: bool) -> None:
        """Informs all watchers; called at start, when readiness changes, and before a drain."""
        status = (
            health_pb2.HealthCheckResponse.SERVING
            if serving
            else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        for name in self._names:
            await self._servicer.set(name, status)
