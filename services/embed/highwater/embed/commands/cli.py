"""The `highwater` command: its groups, its version, and its exit codes.

Exit codes: 0 done, 1 a broker or a service reported an error, 2 the operator must change something;
errors are one line on standard error.
"""

import sys
from importlib import metadata
from typing import Annotated, Final

import typer

from highwater.embed.commands.acl import acl
from highwater.embed.commands.broker import broker
from highwater.embed.commands.healthcheck import healthcheck
from highwater.embed.commands.instance import instance
from highwater.embed.commands.node import node
from highwater.embed.commands.quota import quota
from highwater.embed.commands.service import balancer, controller, gateway, partition
from highwater.embed.commands.topic import topic
from highwater.embed.commands.up import up
from highwater.embed.commands.user import user
from highwater.model.errors import EXIT_FAILED, EXIT_USAGE, HighwaterError, UsageError

app: Final = typer.Typer(
    name="highwater",
    help="A Kafka-compatible, multi-tenant distributed log.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("up")(up)
app.command("broker")(broker)
app.command("gateway")(gateway)
app.command("partition")(partition)
app.command("controller")(controller)
app.command("balancer")(balancer)
app.command("healthcheck")(healthcheck)
app.add_typer(acl, name="acl")
app.add_typer(instance, name="instance")
app.add_typer(node, name="node")
app.add_typer(quota, name="quota")
app.add_typer(topic, name="topic")
app.add_typer(user, name="user")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"highwater {metadata.version('highwater')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """A Kafka-compatible, multi-tenant distributed log."""


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    try:
        app()
    except UsageError as error:
        print(f"highwater: {error}", file=sys.stderr)  # noqa: T201 - the operator reads it.
        sys.exit(EXIT_USAGE)
    except HighwaterError as error:
        print(f"highwater: {error}", file=sys.stderr)  # noqa: T201 - the operator reads it.
        sys.exit(EXIT_FAILED)
