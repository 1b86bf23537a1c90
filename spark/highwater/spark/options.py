"""Options that several commands have, with the same words of help."""

from pathlib import Path
from typing import Annotated

import typer

from highwater.spark.name_values import name_values
from highwater.spark.tables import TableFormat
from highwater.spark.topic_range import ReadOptions

Bootstrap = Annotated[str, typer.Option(help="host:port of any broker.")]
Format = Annotated[TableFormat, typer.Option(help="Of the table.")]
Quarantine = Annotated[
    str | None, typer.Option(help="Table of values that do not fit; else TABLE_quarantine.")
]
OffsetsPerTask = Annotated[
    int | None, typer.Option(min=1, help="Split partitions into tasks of so many offsets.")
]
ReadUncommitted = Annotated[
    bool, typer.Option(help="Also records of transactions that are open or were aborted.")
]
AsJson = Annotated[bool, typer.Option("--json", help="The result as a line of JSON.")]
Kafka = Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the Kafka client.")]
Jars = Annotated[
    Path | None, typer.Option(help="Directory of the connector's jars.", file_okay=False)
]

Html = Annotated[
    Path | None, typer.Option("--html", help="Page to look at; replaced.", dir_okay=False)
]
Png = Annotated[
    Path | None, typer.Option("--png", help="The page's charts as a picture.", dir_okay=False)
]


def kafka_options(words: list[str]) -> dict[str, str]:
    """Returns options NAME=VALUE with the prefix `kafka.`. Raises UsageError."""
    return {f"kafka.{name}": value for name, value in name_values(words, "--kafka").items()}


def read_options(
    bootstrap: str, kafka: list[str] | None, *, per_task: int | None, uncommitted: bool
) -> ReadOptions:
    """Returns how topics are read. Raises UsageError."""
    return ReadOptions(
        bootstrap=bootstrap,
        read_committed=not uncommitted,
        offsets_per_task=per_task,
        kafka=kafka_options(kafka or []),
    )
