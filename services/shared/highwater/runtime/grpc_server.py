"""A gRPC server on the running loop: explicit options, clear bind errors, an orderly drain."""

from collections.abc import Callable, Sequence

import grpc
import grpc.aio

from highwater.model.errors import BindError
from highwater.runtime.grpc_options import MESSAGE_BYTES_MAX_DEFAULT, server_options
from highwater.runtime.port_probe import probe_port


class GrpcServer:
    """One listening address. Register servicers, `start`, later `stop`; not restartable."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT,
        calls_max: int | None = None,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        credentials: grpc.ServerCredentials | None = None,
        idle_ms_max: int | None = None,
    ) -> None:
        """Port 0 lets the system choose; `calls_max` refuses calls above it, None is no limit.

        Plain without `credentials`, TLS with them. A connection that has no call for `idle_ms_max`
        is closed, and its client may open another one.
        """
        self._host = host
        self._wanted_port = port
        self._credentials = credentials
        self._port: int | None = None
        self._server = grpc.aio.server(
            interceptors=list(interceptors),
            options=[
                *server_options(message_bytes_max),
                *([] if idle_ms_max is None else [("grpc.max_connection_idle_ms", idle_ms_max)]),
            ],
            maximum_concurrent_rpcs=calls_max,
        )

    def register(self, add_to_server: Callable[[grpc.aio.Server], None]) -> None:
        """Lets `add_to_server(server)` add servicers; before `start`."""
        add_to_server(self._server)

    @property
    def port(self) -> int:
        """The port that the server listens on; known after `start`."""
        assert self._port is not None, "the server has not been started"
        return self._port

    @property
    def address(self) -> str:
        """host:port, for peers and logs; after `start`."""
        return _join(self._host, self.port)

    async def start(self) -> None:
        """Binds and serves. Raises PortInUseError or BindError."""
        address = _join(self._host, self._wanted_port)
        # Because gRPC does not say why it could not bind.
        probe_port(self._host, self._wanted_port, address=address)
        try:
            if self._credentials is None:
                self._port = self._server.add_insecure_port(address)
            else:
                self._port = self._server.add_secure_port(address, self._credentials)
        except RuntimeError as error:
            raise BindError(address, str(error)) from None
        await self._server.start()

    async def stop(self, *, drain_s: float) -> None:
        """Refuses new calls, lets running ones end for `drain_s` seconds, then cancels them."""
        await self._server.stop(drain_s)


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
