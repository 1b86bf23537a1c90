"""`highwater broker`: a partition node and its gateway, and a controller if wanted, in one process."""

from pathlib import Path
from typing import Annotated

import typer

from highwater.embed.commands.service import ParentPid, PrintConfig


def broker(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="TOML file; its tables broker, gateway, partition, controller are read.",
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.NAME=VALUE", help="One setting of one service."),
    ] = None,
    print_settings: PrintConfig = False,
    parent: ParentPid = None,
) -> None:
    """Run a partition node that is its own gateway, in one process."""
    # Imported here: these would multiply the time of `highwater topic`.
    from highwater.embed.combined.settings import load_broker_settings
    from highwater.runtime.settings import print_config

    if parent is not None:
        from highwater.embed.supervisor.parent import die_with

        die_with(parent)
    settings = load_broker_settings(config, assignments or ())
    if print_settings:
        for one in (settings.broker, *settings.services.values()):
            print_config(one)
        return
    from highwater.embed.combined.broker import run_combined

    raise typer.Exit(run_combined(settings))
