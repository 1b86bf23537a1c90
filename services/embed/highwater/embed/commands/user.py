"""`highwater user`: users who may log in, with passwords that are kept as SCRAM credentials."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from highwater.embed.commands.quota import (
    ControllerAddress,
    DataDirectory,
    Json,
    SecretFile,
    Tls,
    controller_address,
)
from highwater.model.errors import UsageError
from highwater.model.scram import ITERATIONS_DEFAULT, ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism

if TYPE_CHECKING:  # It brings gRPC with it, which other commands need not wait for.
    from highwater.embed.clients.users import KnownUser

user: Final = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Users who may log in.")

PASSWORD_BYTES_MAX: Final = 4096

Name = Annotated[str, typer.Argument(help="The user's name.")]
Instance = Annotated[str, typer.Option(help="The instance (tenant).")]


class Mechanism(StrEnum):
    """Names of the mechanisms."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@user.command("set")
def set_password(
    name: Name,
    mechanism: Annotated[
        Mechanism, typer.Option(help="What the credential is for.")
    ] = Mechanism.SCRAM_SHA_512,
    iterations: Annotated[
        int, typer.Option(min=ITERATIONS_MIN, max=ITERATIONS_MAX, help="Rounds of the hash.")
    ] = ITERATIONS_DEFAULT,
    password_file: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="File with the password, - for standard input."),
    ] = None,
    instance: Instance = "default",
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Give a user a password, asked for if there is no --password-file; it replaces the former one."""
    from highwater.embed.clients.users import set_user

    address = controller_address(controller, data_dir, secret_file, tls)
    password = _password(password_file)
    set_user(address, instance, name, password, ScramMechanism[mechanism.name], iterations)
    typer.echo(f"{name}: {mechanism.value}, {iterations} iterations")


@user.command("list")
def list_all(
    instance: Instance = "default",
    as_json: Json = False,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Show all users and what they may log in by."""
    from rich.console import Console
    from rich.table import Table

    from highwater.embed.clients.users import list_users

    known = list_users(controller_address(controller, data_dir, secret_file, tls), instance)
    if as_json:
        typer.echo(json.dumps([_as_json(one) for one in known], indent=2))
        return
    table = Table()
    table.add_column("user")
    table.add_column("mechanisms")
    for one in known:
        names = (each.mechanism_name for each in one.iterations)
        table.add_row(one.name, ", ".join(names))
    Console().print(table)


@user.command("delete")
def delete(
    name: Name,
    instance: Instance = "default",
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Remove a user: no further login; connections that are open stay open."""
    from highwater.embed.clients.users import delete_user

    delete_user(controller_address(controller, data_dir, secret_file, tls), instance, name)
    typer.echo(f"{name}: removed")


def _as_json(one: "KnownUser") -> dict[str, Any]:
    """The iterations of each mechanism, by its name."""
    iterations = {each.mechanism_name: count for each, count in one.iterations.items()}
    return {"user": one.name, "mechanisms": iterations}


def _password(path: str | None) -> bytes:
    """Not from the command line, which other users of the machine can read. Raises UsageError."""
    if path is None:
        text = str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
        password = text.encode()
    elif path == "-":
        password = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 2)
    else:
        try:
            with Path(path).open("rb") as file:
                password = file.read(PASSWORD_BYTES_MAX + 2)
        except OSError as error:
            raise UsageError(f"--password-file {path}: {error.strerror}") from error
    password = password.removesuffix(b"\n").removesuffix(b"\r")
    if not 0 < len(password) <= PASSWORD_BYTES_MAX:
        raise UsageError(f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
    return password
