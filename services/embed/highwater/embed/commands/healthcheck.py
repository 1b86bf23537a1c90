"""`highwater healthcheck`: asks a service whether it is ready, for container runtimes."""

import http.client
from typing import Annotated, Final

import typer

from highwater.embed.kafka_client import parse_address
from highwater.model.errors import HighwaterError, UnreachableError

TEXT_BYTES_MAX: Final = 1000


def healthcheck(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where its /metrics are.")],
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Patience, in seconds.")] = 3.0,
) -> None:
    """Ends with 0 if the service there is ready, with 1 if it is not."""
    typer.echo(ask(address, timeout_s))


def ask(address: str, timeout_s: float) -> str:
    """What /readyz says. Raises HighwaterError if that is no, UnreachableError if nothing."""
    host, port = parse_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        text = response.read(TEXT_BYTES_MAX).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"no answer from {address}: {error}") from None
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise HighwaterError(f"{address} is {text or response.status}")
    return text
