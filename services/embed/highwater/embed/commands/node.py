"""`highwater node`: the partition nodes of a cluster, through its controller."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from highwater.embed.commands.quota import (
    ControllerAddress,
    DataDirectory,
    SecretFile,
    Tls,
    controller_address,
)

if TYPE_CHECKING:
    from highwater.embed.clients.nodes import DecommissionStep

node: Final = typer.Typer(
    help="List and decommission nodes.", no_args_is_help=True, rich_markup_mode=None
)

NodeNumber = Annotated[int, typer.Argument(metavar="ID", help="The node.")]
_DATA_DIR: Final = Path(".highwater")
_MOVES_DEFAULT: Final = 20


@node.command("list")
def list_nodes(
    controller: ControllerAddress = None,
    data_dir: DataDirectory = _DATA_DIR,
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """List nodes with their numbers of replicas."""
    from rich.console import Console
    from rich.table import Table

    from highwater.embed.clients.nodes import read_nodes

    table = Table()
    table.add_column("node", justify="right")
    for column in ("address", "rack", "state"):
        table.add_column(column, overflow="fold")
    for column in ("replicas", "leaders"):
        table.add_column(column, justify="right")
    for one in read_nodes(controller_address(controller, data_dir, secret_file, tls)):
        table.add_row(
            str(one.node_id), one.address, one.rack, one.state, str(one.replicas), str(one.leaders)
        )
    Console().print(table)


@node.command("decommission")
def decommission(
    number: NodeNumber,
    moves: Annotated[
        int, typer.Option(min=1, max=1000, help="Partitions that move at the same time.")
    ] = _MOVES_DEFAULT,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Allow new replicas on the node again.")
    ] = False,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = _DATA_DIR,
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Move all replicas of a node to the others; no new ones are placed on it.

    If the command is interrupted, run it again: it goes on where it was.
    """
    from highwater.embed.clients import nodes

    address = controller_address(controller, data_dir, secret_file, tls)
    if cancel:
        back = nodes.recommission(address, number)
        typer.echo(f"node {number} takes new replicas again; {_told(back)}")
        return
    nodes.decommission(
        address,
        number,
        moves_max=moves,
        on_step=lambda step: typer.echo(f"node {number}: {_told(step)}"),
    )
    typer.echo(
        f"node {number} holds nothing any more; stop it, then: highwater node remove {number}"
    )


@node.command("remove")
def remove(
    number: NodeNumber,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = _DATA_DIR,
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Remove a node that was decommissioned and has been stopped."""
    from highwater.embed.clients import nodes

    nodes.remove(controller_address(controller, data_dir, secret_file, tls), number)
    typer.echo(f"node {number} is forgotten")


def _told(step: "DecommissionStep") -> str:
    waiting = f", {step.waiting} wait for a node to go to" if step.waiting else ""
    return f"{step.left} replicas left, {step.moving} moving{waiting}"
