"""`highwater quota`: runs the quota service, or sets and shows an instance's limits."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from highwater.embed.commands.service import (
    Assignments,
    ConfigFile,
    ParentPid,
    PrintConfig,
    run_service,
)
from highwater.embed.up.data_dir import DataDir
from highwater.model.errors import UsageError
from highwater.model.instances import InstanceState

quota: Final = typer.Typer(invoke_without_command=True, rich_markup_mode=None)

ControllerAddress = Annotated[
    str | None, typer.Option("--controller", help="HOST:PORT of a controller.")
]
DataDirectory = Annotated[
    Path, typer.Option(help="Data directory of a running `highwater up`, if no --controller.")
]
SECRET_VARIABLE: Final = "HIGHWATER_SECRET_FILE"  # noqa: S105 - a variable's name.
TLS_VARIABLE: Final = "HIGHWATER_TLS"
_TLS_FILES: Final = ("ca_file", "cert_file", "key_file")

SecretFile = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the cluster's secret, or in {SECRET_VARIABLE}; that of --data-dir is known."
    ),
]
Tls = Annotated[
    str | None,
    typer.Option(
        metavar="CA,CERT,KEY",
        help=f"PEM files for a controller with TLS, or in {TLS_VARIABLE}; likewise.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]
Limit = Annotated[str | None, typer.Option(metavar="N|none", help="Bytes per second.")]
Storage = Annotated[
    str | None,
    typer.Option(
        metavar="N|none", help="Bytes of its records, each counted once, not once a replica."
    ),
]


@quota.callback()
def serve(
    context: typer.Context,
    config: ConfigFile = None,
    assignments: Assignments = None,
    print_settings: PrintConfig = False,
    parent: ParentPid = None,
) -> None:
    """Run the quota service, or set and show limits."""
    if context.invoked_subcommand is None:
        run_service("quota", config, assignments, print_settings, parent)


@quota.command("set")
def set_limits(
    instance: Annotated[str, typer.Option(help="The instance (tenant).")] = "default",
    produce_bytes_per_second: Limit = None,
    consume_bytes_per_second: Limit = None,
    storage_bytes: Storage = None,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Set an instance's limits; limits that are not named stay, `none` means unlimited."""
    from highwater.embed.clients.limits import LimitChange, change_limits

    change = LimitChange(
        produce=_limit("--produce-bytes-per-second", produce_bytes_per_second),
        consume=_limit("--consume-bytes-per-second", consume_bytes_per_second),
        storage=_limit("--storage-bytes", storage_bytes),
    )
    limits = change_limits(
        controller_address(controller, data_dir, secret_file, tls), instance, change
    )
    typer.echo(
        f"{instance}: produce {_rate(limits.produce_bytes_per_second)}, "
        f"consume {_rate(limits.consume_bytes_per_second)}, "
        f"storage {_bytes(limits.storage_bytes)}"
    )


@quota.command("show")
def show_limits(
    as_json: Json = False,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Show the limits of all instances that have any."""
    from rich.console import Console
    from rich.table import Table

    from highwater.embed.clients.limits import read_limits

    known = read_limits(controller_address(controller, data_dir, secret_file, tls))
    if as_json:
        typer.echo(json.dumps([_as_json(one) for one in known], indent=2))
        return
    table = Table()
    table.add_column("instance")
    table.add_column("produce", justify="right")
    table.add_column("consume", justify="right")
    table.add_column("storage", justify="right")
    for one in known:
        table.add_row(
            one.instance,
            _rate(one.produce_bytes_per_second),
            _rate(one.consume_bytes_per_second),
            _bytes(one.storage_bytes),
        )
    Console().print(table)


def controller_address(
    controller: str | None,
    data_dir: Path,
    secret_file: Path | None = None,
    tls: str | None = None,
) -> str:
    """The given address, or else that of the cluster on the data directory.

    It brings the files that the controller asks for: the given ones, those of the environment, or
    those of the data directory. Raises UsageError.
    """
    # Imported here: `highwater topic` needs no controller.
    from highwater.embed.clients.controller_session import ControllerAt

    directory = DataDir(data_dir)
    address = controller or directory.read_controller_address()
    files = directory.read_inner() if address == directory.find_controller_address() else {}
    if secret := str(secret_file or "") or os.environ.get(SECRET_VARIABLE):
        files["secret_file"] = secret
    if certificates := tls or os.environ.get(TLS_VARIABLE):
        paths = certificates.split(",")
        if len(paths) != len(_TLS_FILES) or not all(paths):
            raise UsageError("--tls: expected the files CA,CERT,KEY")
        files |= zip(_TLS_FILES, paths, strict=True)
    return ControllerAt(address, files)


def _as_json(one: InstanceState) -> dict[str, Any]:
    """One instance's limits; null is unlimited."""
    return {
        "instance": one.instance,
        "produce_bytes_per_second": one.produce_bytes_per_second,
        "consume_bytes_per_second": one.consume_bytes_per_second,
        "storage_bytes": one.storage_bytes,
    }


def _limit(flag: str, text: str | None) -> int | None:
    """None keeps the limit, -1 means unlimited."""
    if text is None:
        return None
    if text == "none":
        return -1
    if not text.isdecimal() or int(text) > 1 << 50:
        raise UsageError(f"{flag}: expected a number of bytes or none, got {text!r}")
    return int(text)


def _rate(limit: int | None) -> str:
    return "unlimited" if limit is None else f"{limit} B/s"


def _bytes(limit: int | None) -> str:
    return "unlimited" if limit is None else f"{limit} B"
