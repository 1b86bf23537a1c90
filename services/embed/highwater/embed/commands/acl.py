"""`highwater acl`: what users may do, entry by entry."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from highwater.embed.commands.quota import (
    ControllerAddress,
    DataDirectory,
    Json,
    SecretFile,
    Tls,
    controller_address,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.acls import ALL_OPERATIONS, WILDCARD, Acl, PatternType, Permission
from highwater.model.authorization import THE_CLUSTER, USER, ResourceType
from highwater.model.errors import UsageError
from highwater.model.ids import InstanceId

acl: Final = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="What users may do.")

ALL: Final = "all"
_OPERATIONS: Final = {
    **{
        operation.name.lower().replace("_", "-"): int(operation)
        for operation in AclOperation
        if operation != AclOperation.CREATE_TOKENS  # There are none.
    },
    ALL: ALL_OPERATIONS,
}
_KINDS: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class Kind(StrEnum):
    """What an entry is about."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


User = Annotated[str, typer.Argument(help="The user's name, '*' for all.")]
Operation = Annotated[
    str, typer.Argument(help=f"One of {', '.join(sorted(_OPERATIONS))}.", metavar="OPERATION")
]
About = Annotated[Kind, typer.Argument(help="What it is about.")]
Name = Annotated[str, typer.Argument(help="Its name, '*' for all; none for the cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefix", help="All whose names begin so.")]
Deny = Annotated[bool, typer.Option("--deny", help="Deny it, whatever others allow.")]
Host = Annotated[str, typer.Option(help="Only from this address.")]
Instance = Annotated[str, typer.Option(help="The instance (tenant).")]


@acl.command("add")
def add(
    user: User,
    operation: Operation,
    kind: About,
    name: Name = "",
    prefix: Prefixed = False,
    deny: Deny = False,
    host: Host = WILDCARD,
    instance: Instance = "default",
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Allow a user an operation, for example: highwater acl add alice read topic logs."""
    from highwater.embed.clients.acls import add_acl

    entry = _entry(user, operation, kind, name, prefix, deny, host, instance)
    add_acl(controller_address(controller, data_dir, secret_file, tls), entry)
    typer.echo(describe(entry))


@acl.command("remove")
def remove(
    user: User,
    operation: Operation,
    kind: About,
    name: Name = "",
    prefix: Prefixed = False,
    deny: Deny = False,
    host: Host = WILDCARD,
    instance: Instance = "default",
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Take back what `add` with the same words has added."""
    from highwater.embed.clients.acls import remove_acl

    entry = _entry(user, operation, kind, name, prefix, deny, host, instance)
    if not remove_acl(controller_address(controller, data_dir, secret_file, tls), entry):
        raise UsageError(f"there is no such ACL: {describe(entry)}")
    typer.echo(f"removed: {describe(entry)}")


@acl.command("list")
def list_all(
    instance: Instance = "default",
    as_json: Json = False,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Show all ACLs."""
    from rich.console import Console
    from rich.table import Table

    from highwater.embed.clients.acls import list_acls

    known = list_acls(controller_address(controller, data_dir, secret_file, tls), instance)
    if as_json:
        typer.echo(json.dumps([_as_json(entry) for entry in known], indent=2))
        return
    table = Table()
    for column in ("principal", "may", "operation", "on", "from"):
        table.add_column(column, overflow="fold")
    for entry in known:
        table.add_row(*_cells(entry))
    Console().print(table)


def describe(entry: Acl) -> str:
    """Returns one line for a person."""
    principal, may, operation, about, host = _cells(entry)
    return f"{principal} {may} {operation} on {about} from {host}"


def _as_json(entry: Acl) -> dict[str, Any]:
    """One entry in the words of the options of `add`."""
    principal, _, operation, _, host = _cells(entry)
    return {
        "principal": principal,
        "permission": "deny" if entry.permission == Permission.DENY else "allow",
        "operation": operation,
        "resource_type": _kind(entry),
        "name": entry.name,
        "prefix": entry.pattern_type == PatternType.PREFIXED,
        "host": host,
    }


def _cells(entry: Acl) -> tuple[str, str, str, str, str]:
    names = {number: name for name, number in _OPERATIONS.items()}
    about = f"{_kind(entry)} {entry.name}"
    if entry.pattern_type == PatternType.PREFIXED:
        about += "..."
    return (
        entry.principal,
        "may not" if entry.permission == Permission.DENY else "may",
        names.get(entry.operation, str(entry.operation)),
        about,
        entry.host,
    )


def _kind(entry: Acl) -> str:
    kinds = {int(kind): kind.name.lower().replace("_", "-") for kind in ResourceType}
    return kinds.get(entry.resource_type, str(entry.resource_type))


def _entry(
    user: str,
    operation: str,
    kind: Kind,
    name: str,
    prefix: bool,
    deny: bool,
    host: str,
    instance: str,
) -> Acl:
    """Raises UsageError."""
    number = _OPERATIONS.get(operation.lower())
    if number is None:
        raise UsageError(f"no operation {operation!r}: {', '.join(sorted(_OPERATIONS))}")
    if (kind is Kind.CLUSTER) is bool(name):
        raise UsageError("a cluster has no name" if name else f"which {kind.value}?")
    resource_type, about = (
        (int(THE_CLUSTER.resource_type), THE_CLUSTER.name)
        if kind is Kind.CLUSTER
        else (int(_KINDS[kind.value]), name)
    )
    return Acl(
        InstanceId(instance),
        resource_type,
        int(PatternType.PREFIXED if prefix else PatternType.LITERAL),
        about,
        f"{USER}:{user}",
        host,
        number,
        int(Permission.DENY if deny else Permission.ALLOW),
    )
