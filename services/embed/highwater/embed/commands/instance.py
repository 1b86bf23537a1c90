"""`highwater instance`: tenants of the cluster, each with ports, users, topics and limits of its own."""

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from highwater.embed.commands.instance_change import (
    AccessOptions,
    AllowOptions,
    InstanceChange,
    PortOptions,
)
from highwater.embed.commands.quantities import milliseconds_of
from highwater.embed.commands.quota import (
    ControllerAddress,
    DataDirectory,
    Json,
    SecretFile,
    Tls,
    controller_address,
)
from highwater.model.errors import UsageError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER

instance: Final = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Tenants: create, list, change, delete."
)

Name = Annotated[str, typer.Argument(help="The instance's id.")]
Listener = Annotated[str, typer.Option(help="The gateways' listener that the ports hang on.")]
NewPort = Annotated[
    int, typer.Option(min=1, max=65_535, help="Bootstrap port; node n is on that + n.")
]
Port = Annotated[
    int | None, typer.Option(min=1, max=65_535, help="Bootstrap port; node n is on that + n.")
]
AdvertisedHost = Annotated[
    str | None, typer.Option(help="Host that clients are told; '' for the gateway's.")
]
AdvertisedPort = Annotated[
    int | None,
    typer.Option(min=0, max=65_535, help="Bootstrap port that clients are told; 0: the port."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(metavar="CIDR", help="Network that clients may come from; may be repeated."),
]
AllowNobody = Annotated[bool, typer.Option("--allow-nobody", help="Nobody may connect.")]
AllowAll = Annotated[bool, typer.Option("--allow-all", help="Clients may come from anywhere.")]
Rate = Annotated[str | None, typer.Option(metavar="N|none", help="In bytes, also as 10MB, 64KiB.")]
Storage = Annotated[
    str | None,
    typer.Option(metavar="N|none", help="Bytes of records, each counted once; also as 10GB."),
]
Connections = Annotated[str | None, typer.Option(metavar="N|none", help="At each gateway.")]
Partitions = Annotated[str | None, typer.Option(metavar="N|none", help="Of all its topics.")]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="N|none",
        help="Groups with members or offsets, over all nodes.",
    ),
]
MessageBytes = Annotated[
    str | None, typer.Option(metavar="N|none", help="Bound of its topics' max.message.bytes.")
]
Protection = Annotated[
    bool | None,
    typer.Option(
        "--delete-protection/--no-delete-protection", help="Whether it cannot be deleted."
    ),
]
TokenAudience = Annotated[
    str | None,
    typer.Option(
        metavar="AUD|none", help="Tokens with this audience open its ports; without it, none do."
    ),
]
Certificates = Annotated[
    bool | None,
    typer.Option(
        "--certificates/--no-certificates",
        help="Whether clients are called by their certificates; without it, they are not.",
    ),
]
Open = Annotated[
    bool | None,
    typer.Option(
        "--open/--closed",
        help="Whether everybody may use what no ACL is about; without it, as the gateways' setting says.",
    ),
]


@instance.command("create")
def create(
    name: Name,
    port: NewPort,
    listener: Listener = DEFAULT_LISTENER,
    advertised_host: AdvertisedHost = None,
    advertised_port: AdvertisedPort = None,
    allow: Allow = None,
    allow_nobody: AllowNobody = False,
    produce_bytes_per_second: Rate = None,
    consume_bytes_per_second: Rate = None,
    storage_bytes: Storage = None,
    connections: Connections = None,
    partitions: Partitions = None,
    groups: Groups = None,
    message_bytes: MessageBytes = None,
    token_audience: TokenAudience = None,
    certificates: Certificates = None,
    open_if_no_acl: Open = None,
    delete_protection: Protection = None,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Create an instance. Clients that come by its ports see it alone; it has no limits but those named."""
    from highwater.embed.clients.instances import create_instance

    change = InstanceChange(
        ports=PortOptions(
            listener=listener,
            port=port,
            advertised_host=advertised_host,
            advertised_port=advertised_port,
        ),
        allow=AllowOptions(networks=allow or (), nobody=allow_nobody),
        limits={
            "produce_bytes_per_second": produce_bytes_per_second,
            "consume_bytes_per_second": consume_bytes_per_second,
            "storage_bytes": storage_bytes,
            "connections_max": connections,
            "partitions_max": partitions,
            "groups_max": groups,
            "message_bytes_max": message_bytes,
        },
        access=AccessOptions(
            token_audience=token_audience, certificates=certificates, open=open_if_no_acl
        ),
        delete_protection=delete_protection,
    )
    wanted = change.of(InstanceState(instance=InstanceId(name)))
    create_instance(controller_address(controller, data_dir, secret_file, tls), wanted)
    typer.echo(f"{name}: created, port {port} on listener {listener}")


@instance.command("set")
def set_values(
    name: Name,
    port: Port = None,
    listener: Listener = DEFAULT_LISTENER,
    advertised_host: AdvertisedHost = None,
    advertised_port: AdvertisedPort = None,
    remove_listener: Annotated[
        list[str] | None, typer.Option(help="Listener on which it shall have no ports any more.")
    ] = None,
    allow: Allow = None,
    allow_nobody: AllowNobody = False,
    allow_all: AllowAll = False,
    produce_bytes_per_second: Rate = None,
    consume_bytes_per_second: Rate = None,
    storage_bytes: Storage = None,
    connections: Connections = None,
    partitions: Partitions = None,
    groups: Groups = None,
    message_bytes: MessageBytes = None,
    token_audience: TokenAudience = None,
    certificates: Certificates = None,
    open_if_no_acl: Open = None,
    open_as_gateway: Annotated[
        bool,
        typer.Option("--open-as-gateway", help="Open or closed as the gateways' setting says."),
    ] = False,
    delete_protection: Protection = None,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Change an instance, also "default"; what is not named stays, `none` means unlimited."""
    from highwater.embed.clients.instances import change_instance

    change = InstanceChange(
        ports=PortOptions(
            listener=listener,
            port=port,
            advertised_host=advertised_host,
            advertised_port=advertised_port,
            removed=remove_listener or (),
        ),
        allow=AllowOptions(networks=allow or (), nobody=allow_nobody, all=allow_all),
        limits={
            "produce_bytes_per_second": produce_bytes_per_second,
            "consume_bytes_per_second": consume_bytes_per_second,
            "storage_bytes": storage_bytes,
            "connections_max": connections,
            "partitions_max": partitions,
            "groups_max": groups,
            "message_bytes_max": message_bytes,
        },
        access=AccessOptions(
            token_audience=token_audience,
            certificates=certificates,
            open=open_if_no_acl,
            open_as_gateway=open_as_gateway,
        ),
        delete_protection=delete_protection,
    )
    if change == InstanceChange(limits=dict.fromkeys(change.limits)):
        raise UsageError("nothing to change: name an option")
    change_instance(controller_address(controller, data_dir, secret_file, tls), name, change.of)
    typer.echo(f"{name}: changed")


@instance.command("list")
def list_all(
    as_json: Json = False,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Show all instances."""
    from rich.console import Console
    from rich.table import Table

    from highwater.embed.clients.instances import read_instances
    from highwater.embed.commands import instance_report

    known = read_instances(controller_address(controller, data_dir, secret_file, tls))
    if as_json:
        typer.echo(json.dumps([instance_report.as_json(one) for one in known], indent=2))
        return
    table = Table()
    for column in instance_report.COLUMNS:
        table.add_column(column, overflow="fold")
    for one in known:
        table.add_row(*instance_report.list_row(one))
    Console().print(table)


@instance.command("show")
def show(
    name: Name,
    as_json: Json = False,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Show everything of one instance."""
    from rich.console import Console
    from rich.table import Table

    from highwater.embed.clients.instances import read_instance
    from highwater.embed.commands import instance_report

    known = read_instance(controller_address(controller, data_dir, secret_file, tls), name)
    if as_json:
        typer.echo(json.dumps(instance_report.as_json(known), indent=2))
        return
    table = Table(title=f"instance {name}", title_justify="left", show_header=False)
    for what, value in instance_report.detail_rows(known):
        table.add_row(what, value)
    Console().print(table)


@instance.command("delete")
def delete(
    name: Name,
    after: Annotated[
        str, typer.Option(metavar="TIME", help="How long it can be restored: 0, 30m, 12h, 7d.")
    ] = "1d",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Delete an instance: its ports close now; later its topics, users and ACLs are removed for good."""
    from highwater.embed.clients.instances import delete_instance, read_instance
    from highwater.embed.commands.instance_report import moment

    purge_after_ms = milliseconds_of("--after", after)
    address = controller_address(controller, data_dir, secret_file, tls)
    if not yes:
        known = read_instance(address, name)
        when = "for good, at once" if purge_after_ms == 0 else f"for good after {after}"
        typer.confirm(f"Delete instance {name} with {known.topics} topics, {when}?", abort=True)
    purge_at_ms = delete_instance(address, name, purge_after_ms=purge_after_ms)
    if purge_after_ms:
        typer.echo(
            f"{name}: deleted; `highwater instance restore` works until {moment(purge_at_ms)}"
        )
    else:
        typer.echo(f"{name}: deleted for good")


@instance.command("restore")
def restore(
    name: Name,
    controller: ControllerAddress = None,
    data_dir: DataDirectory = Path(".highwater"),
    secret_file: SecretFile = None,
    tls: Tls = None,
) -> None:
    """Take back `delete`, until the time that it has told."""
    from highwater.embed.clients.instances import restore_instance

    restore_instance(controller_address(controller, data_dir, secret_file, tls), name)
    typer.echo(f"{name}: restored")
