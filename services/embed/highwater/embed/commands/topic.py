"""`highwater topic`: manages topics of any Kafka broker, by Kafka's protocol."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from highwater.model.errors import UsageError

if TYPE_CHECKING:
    from highwater.embed.clients.kafka_client import KafkaClient

topic: Final = typer.Typer(
    help="Create, list, describe and delete topics.", no_args_is_help=True, rich_markup_mode=None
)

Bootstrap = Annotated[str, typer.Option(help="HOST:PORT of a broker.")]
CommandConfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        envvar="HIGHWATER_COMMAND_CONFIG",
        help="Client properties for TLS and logins, as Kafka's tools take them.",
    ),
]
_DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


@topic.command("create")
def create(
    name: Annotated[str, typer.Argument(help="The topic.")],
    bootstrap: Bootstrap = _DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    partitions: Annotated[
        int, typer.Option(help="Number of partitions; -1 is the broker's default.")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option(help="Replicas of each; -1 is the broker's default.")
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A config of the topic.")
    ] = None,
) -> None:
    """Create a topic."""
    configs: dict[str, str] = {}
    for assignment in config or ():
        key, equals, value = assignment.partition("=")
        if not key or not equals:
            raise UsageError(f"--config: expected NAME=VALUE, got {assignment!r}")
        configs[key] = value
    with _client(bootstrap, command_config) as client:
        created = client.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configs=configs
        )
    typer.echo(f"created topic {name} with {created} partitions")


@topic.command("list")
def list_topics(
    bootstrap: Bootstrap = _DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    internal: Annotated[bool, typer.Option(help="List internal topics, too.")] = False,
) -> None:
    """List topics."""
    from rich.console import Console
    from rich.table import Table

    with _client(bootstrap, command_config) as client:
        topics = client.metadata().topics
    table = Table()
    table.add_column("topic", overflow="fold")
    table.add_column("partitions", justify="right")
    table.add_column("replicas", justify="right")
    for one in sorted(topics, key=lambda one: one.name or ""):
        if one.is_internal and not internal:
            continue
        replicas = len(one.partitions[0].replica_nodes) if one.partitions else 0
        table.add_row(one.name, str(len(one.partitions)), str(replicas))
    Console().print(table)


@topic.command("describe")
def describe(
    name: Annotated[str, typer.Argument(help="The topic.")],
    bootstrap: Bootstrap = _DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Show a topic's partitions and the configs that are set on it."""
    from rich.console import Console
    from rich.table import Table

    from highwater.embed.clients.kafka_client import BrokerError

    with _client(bootstrap, command_config) as client:
        (found,) = client.metadata([name]).topics
        if found.error_code:
            raise BrokerError(found.error_code, None, f"topic {name}")
        settings = client.topic_configs(name)
    table = Table(title=f"topic {name}", title_justify="left")
    for column in ("partition", "leader", "leader epoch", "replicas", "isr"):
        table.add_column(column, justify="right")
    for one in sorted(found.partitions, key=lambda one: one.partition_index):
        table.add_row(
            str(one.partition_index),
            "none" if one.leader_id < 0 else str(one.leader_id),
            str(one.leader_epoch),
            _ids(one.replica_nodes),
            _ids(one.isr_nodes),
        )
    console = Console()
    console.print(table)
    for setting in settings:
        if not setting.is_default:
            console.print(f"{setting.name}={setting.value}", markup=False, highlight=False)


@topic.command("delete")
def delete(
    name: Annotated[str, typer.Argument(help="The topic.")],
    bootstrap: Bootstrap = _DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Delete a topic with all its records."""
    with _client(bootstrap, command_config) as client:
        client.delete_topic(name)
    typer.echo(f"deleted topic {name}")


def _client(bootstrap: str, command_config: str | None) -> "KafkaClient":
    from highwater.embed.clients.client_properties import BrokerAccess, read_properties
    from highwater.embed.clients.kafka_client import KafkaClient

    access = BrokerAccess() if command_config is None else read_properties(command_config)
    return KafkaClient(bootstrap, access=access)


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(str(node) for node in nodes)
