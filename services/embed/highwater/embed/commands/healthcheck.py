"""`highwater healthcheck`: asks a service whether it is ready."""

from typing import Annotated

import typer

from highwater.embed.clients.kafka_client import parse_address
from highwater.embed.clients.readiness_probe import TIMEOUT_S, ask


def healthcheck(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where its /metrics are.")],
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Timeout in seconds.")] = TIMEOUT_S,
) -> None:
    """Ends with 0 if the service there is ready, with 1 if it is not."""
    host, port = parse_address(address)
    typer.echo(ask(host, port, timeout_s))
