"""`highwater controller|partition|gateway|quota|balancer`: one service in this process."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

_CONFIGS: Final = {
    "controller": ("highwater.controller.config", "ControllerConfig"),
    "quota": ("highwater.quota.config", "QuotaConfig"),
    "partition": ("highwater.partition.config", "PartitionConfig"),
    "gateway": ("highwater.gateway.config", "GatewayConfig"),
    "balancer": ("highwater.balancer.config", "BalancerConfig"),
}

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file; the service's own table is read.")
]
Assignments = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One setting.")
]
PrintConfig = Annotated[bool, typer.Option("--print-config", help="Print every setting and end.")]
ParentPid = Annotated[int | None, typer.Option("--parent", hidden=True)]


def controller(
    config: ConfigFile = None,
    assignments: Assignments = None,
    print_settings: PrintConfig = False,
    parent: ParentPid = None,
) -> None:
    """Run one controller."""
    run_service("controller", config, assignments, print_settings, parent)


def partition(
    config: ConfigFile = None,
    assignments: Assignments = None,
    print_settings: PrintConfig = False,
    parent: ParentPid = None,
) -> None:
    """Run one partition node."""
    run_service("partition", config, assignments, print_settings, parent)


def gateway(
    config: ConfigFile = None,
    assignments: Assignments = None,
    print_settings: PrintConfig = False,
    parent: ParentPid = None,
) -> None:
    """Run one gateway."""
    run_service("gateway", config, assignments, print_settings, parent)


def balancer(
    config: ConfigFile = None,
    assignments: Assignments = None,
    print_settings: PrintConfig = False,
    parent: ParentPid = None,
) -> None:
    """Run a TCP balancer in front of several gateways."""
    run_service("balancer", config, assignments, print_settings, parent)


def run_service(
    service: str,
    config_file: Path | None,
    assignments: list[str] | None,
    print_settings: bool,
    parent: int | None,
) -> None:
    """Runs the service and ends the process with its exit code. Raises ConfigError."""
    # Imported here: the settings model would double the time of `highwater topic`.
    from highwater.runtime.settings import load_settings, parse_assignments, print_config

    if parent is not None:
        from highwater.embed.supervisor.parent import die_with

        die_with(parent)
    module, name = _CONFIGS[service]
    settings = load_settings(
        getattr(importlib.import_module(module), name),
        config_file=config_file,
        overrides=parse_assignments(assignments or ()),
    )
    if print_settings:
        print_config(settings)
        return
    # Import only the service that this process runs.
    run: Callable[[Any], int] = importlib.import_module(f"highwater.{service}.__main__").run
    raise typer.Exit(run(settings))
