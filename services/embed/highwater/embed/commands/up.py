"""`highwater up`: a whole cluster with one command."""

from pathlib import Path
from typing import Annotated

import typer


def up(
    data_dir: Annotated[Path, typer.Option(help="Where everything is kept.")] = Path(".highwater"),
    host: Annotated[str, typer.Option(help="Address that clients connect to.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Bootstrap port; 0 lets the system choose.")
    ] = 9092,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of /metrics; off if not given.")
    ] = None,
) -> None:
    """Run a whole cluster: one process, or with --nodes several that are supervised."""
    from highwater.embed.embedded import run_embedded
    from highwater.embed.broker import BrokerSettings

    code = run_embedded(
        BrokerSettings(data_dir=data_dir, host=host, port=port, metrics_port=metrics_port)
    )
    raise typer.Exit(code)
