"""`highwater up`: a whole cluster with one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from highwater.embed.up.options import UpOptions

Gateways = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=16,
        help="Gateways with ports and processes of their own; implies --separate. 0: each node's "
        "process has one, also if there is one node.",
    ),
]


def up(
    data_dir: Annotated[Path, typer.Option(help="Directory of all data.")] = Path(".highwater"),
    host: Annotated[str, typer.Option(help="Address that clients connect to.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="Bootstrap port; 0 lets the system choose. With several processes node n is "
            "served on port + n.",
        ),
    ] = 9092,
    nodes: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            help="Partition nodes. If there are several, each is a process with its own gateway.",
        ),
    ] = 1,
    gateways: Gateways = None,
    separate: Annotated[
        bool,
        typer.Option("--separate", help="One process per service, over gRPC."),
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of /metrics on 127.0.0.1; with several processes the first port, for "
            "controller, quota, nodes and gateways in this order. 0 is off; by default free ports "
            "are chosen, printed at the start and written to metrics.json of the data directory.",
        ),
    ] = None,
    etcd: Annotated[
        str | None,
        typer.Option(help="Store metadata in etcd (HOST:PORT,... of its members), not in SQLite."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error, for every service.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with a table per service.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.NAME=VALUE", help="One setting of one service."),
    ] = None,
) -> None:
    """Run a whole cluster: in this process, or as several processes that are supervised."""
    if separate and gateways == 0:
        raise typer.BadParameter("--separate needs at least one gateway", param_hint="--gateways")
    from highwater.embed.up.options import UpOptions

    options = UpOptions(
        data_dir=data_dir,
        host=host,
        port=port,
        nodes=nodes,
        gateways=gateways,
        separate=separate,
        metrics_port=metrics_port,
        etcd=tuple(one.strip() for one in etcd.split(",") if one.strip()) if etcd else (),
        log_level=log_level,
        config_file=config,
        assignments=tuple(assignments or ()),
    )
    raise typer.Exit(_run(options))


def _run(options: "UpOptions") -> int:
    if options.supervised:
        from highwater.embed.supervisor.run import run_supervised

        return run_supervised(options)
    from highwater.embed.embedded.run import run_embedded

    return run_embedded(options)
