"""Formats of records' values: what a value is turned into, and which ones do not fit.

A value that is null (a tombstone) is null in every format, and never an error.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import DataType, StringType, StructType

from highwater.model.errors import UsageError
from highwater.spark import combined_log
from highwater.spark.combined_log_columns import LineColumns
from highwater.spark.java_gateway import java

_CORRUPT: Final = "_corrupt"
"""Where Spark's readers of JSON and CSV put a text that does not fit; gone from the result."""

_ENDS_CSV: Final = "\uffff"
"""What ends a line of CSV in `from_csv`, which sets it so that line ends are text like any other. One
parser reads all values of a task, and what is behind it would become the next value's row."""

_CSV_COLUMNS_MAX: Final = 20_480
"""Spark's own limit (`maxColumns`); a value with more ends the job instead of being malformed."""

_INSIDE: Final = {"maxNestingDepth": "1001"}
"""One level more than Spark's default: for a text that stands inside another one."""

_SCHEMA_SIZE_MAX: Final = 1 << 20


class SchemaUnusable(UsageError):
    """The format needs a schema file, or the file holds none that Spark can use."""

    reason = "SCHEMA_UNUSABLE"


class FormatName(StrEnum):
    """Formats by their names on the command line."""

    RAW = "raw"
    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    COMBINED_LOG = "combined-log"


NEEDS_SCHEMA: Final = frozenset({FormatName.JSON, FormatName.CSV, FormatName.AVRO})


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFormat:
    """A format with the text of its schema: Avro's JSON, or Spark's JSON or DDL for JSON and CSV."""

    name: FormatName
    schema: str | None = None

    @property
    def always_fits(self) -> bool:
        """Whether no value can be an error."""
        return self.name is FormatName.RAW


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Two columns: `value` in its new type, and `error`, a text where the value does not fit."""

    value: Column
    error: Column


def value_format(name: str, schema_file: Path | None = None) -> ValueFormat:
    """Returns the format of that name with the schema in the file. Raises SchemaUnusable."""
    found = FormatName(name)
    if found not in NEEDS_SCHEMA:
        if schema_file is not None:
            raise SchemaUnusable(f"the format {found} has no schema; leave out {schema_file}")
        return ValueFormat(name=found)
    if schema_file is None:
        raise SchemaUnusable(f"the format {found} needs a schema file")
    try:
        with schema_file.open("rb") as file:
            data = file.read(_SCHEMA_SIZE_MAX + 1)
        text = data.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaUnusable(f"cannot read the schema file {schema_file}: {error}") from error
    if not text or len(data) > _SCHEMA_SIZE_MAX:
        raise SchemaUnusable(f"{schema_file} is empty or above {_SCHEMA_SIZE_MAX} bytes")
    return ValueFormat(name=found, schema=text)


def parse(wanted: ValueFormat, value: Column) -> Parsed:
    """Returns the two columns for a column of bytes; needs a running session.

    Raises SchemaUnusable for a schema that Spark cannot use.
    """
    return _PARSERS[wanted.name](value, wanted.schema or "")


def _raw(value: Column, _: str) -> Parsed:
    return Parsed(value=value, error=f.lit(None).cast("string"))


def _text(value: Column, _: str) -> Parsed:
    text = value.cast("string")
    return Parsed(value=text, error=f.when(~f.is_valid_utf8(text), "not UTF-8"))


def _json(value: Column, schema: str) -> Parsed:
    columns = _columns(schema).add(_CORRUPT, StringType())
    found = f.from_json(
        value.cast("string"),
        columns,
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )
    # Spark reads the first value of a text, and takes no notice of what is behind it.
    whole = f.when(_is_one_json(value.cast("string")), found)
    return _without_corrupt(value, whole, "not JSON of the schema")


def _is_one_json(text: Column) -> Column:
    """Whether nothing is behind the first JSON value in a text that begins with one; never null.

    Inside an array, only `]` may be behind the value without harm, or a comma and one element more;
    inside an object, only a brace or a comma. No text can have it both ways.
    """
    elements = f.from_json(f.concat(f.lit("["), text, f.lit("]")), "array<struct<>>", _INSIDE)
    field = f.from_json(
        f.concat(f.lit('{"":'), text, f.lit("}")),
        StructType().add(_CORRUPT, StringType()),
        {**_INSIDE, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )
    return f.coalesce((f.size(elements) == 1) & field[_CORRUPT].isNull(), f.lit(False))


def _csv(value: Column, schema: str) -> Parsed:
    columns = _columns(schema).add(_CORRUPT, StringType())
    text = value.cast("string")
    commas = f.length(text) - f.length(f.replace(text, f.lit(",")))
    is_safe = ~f.contains(text, f.lit(_ENDS_CSV)) & (commas < _CSV_COLUMNS_MAX)
    found = f.from_csv(
        # The parser must not see the others: they harm the next value, or the job.
        f.when(is_safe, text),
        columns.toDDL(),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )
    return _without_corrupt(value, found, "not CSV of the schema")


def _without_corrupt(value: Column, found: Column, complaint: str) -> Parsed:
    text = value.cast("string")
    error = f.when(value.isNull(), f.lit(None).cast("string")).otherwise(
        f.when(~f.is_valid_utf8(text), "not UTF-8").when(
            # An empty text is no record to Spark's readers, and no value of the schema either.
            found.isNull() | found[_CORRUPT].isNotNull() | (f.trim(text) == ""),
            complaint,
        )
    )
    kept = f.when(value.isNotNull(), found.dropFields(_CORRUPT))
    return Parsed(value=kept, error=error)


def _avro(value: Column, schema: str) -> Parsed:
    try:
        document = json.loads(schema)
        names = [str(each["name"]) for each in document["fields"]]
    except (ValueError, KeyError, TypeError) as error:
        raise SchemaUnusable(f"not an Avro schema of a record: {error!r}") from error
    if not names:
        raise SchemaUnusable("the Avro schema has no fields")
    try:
        # Otherwise the first task would find out, as an error of Spark's.
        java(SparkSession.active()).org.apache.avro.Schema.Parser().parse(schema)
    except Py4JJavaError as error:
        why = str(error.java_exception.getMessage()).partition("\n")[0]
        raise SchemaUnusable(f"not an Avro schema of a record: {why}") from error
    found = from_avro(value, schema, {"mode": "PERMISSIVE"})
    # Spark gives nulls in all fields for bytes that do not fit, even where the schema forbids them.
    empty = found.isNull()
    nothing = f.lit(True)
    for name in names:
        nothing = nothing & found[name].isNull()
    return Parsed(
        value=f.when(value.isNotNull(), found),
        error=f.when(value.isNotNull() & (empty | nothing), "not Avro of the schema"),
    )


def _combined_log(value: Column, _: str) -> Parsed:
    columns = LineColumns(value.cast("string"))
    time = columns.time
    fields = f.struct(
        columns.group(combined_log.HOST_GROUP).alias("host"),
        columns.group(combined_log.USER_GROUP).alias("user"),
        time.alias("time"),
        columns.request.alias("request"),
        columns.path.alias("path"),
        columns.status.alias("status"),
        columns.size_bytes.alias("size_bytes"),
        columns.line.alias("line"),
    )
    return Parsed(
        value=f.when(value.isNotNull(), fields),
        error=f.when(value.isNotNull() & time.isNull(), "not in the combined log format"),
    )


_PARSERS: Final[dict[FormatName, Callable[[Column, str], Parsed]]] = {
    FormatName.RAW: _raw,
    FormatName.TEXT: _text,
    FormatName.JSON: _json,
    FormatName.CSV: _csv,
    FormatName.AVRO: _avro,
    FormatName.COMBINED_LOG: _combined_log,
}


def _columns(schema: str) -> StructType:
    """A schema in DDL, or in Spark's JSON if it begins with a brace."""
    try:
        found: DataType = (
            StructType.fromJson(json.loads(schema))
            if schema.startswith("{")
            else StructType.fromDDL(schema)
        )
    except (ValueError, KeyError, TypeError, PySparkException) as error:
        text = str(error).partition("\n")[0]
        raise SchemaUnusable(f"not a schema of Spark, in DDL or JSON: {text}") from error
    if not isinstance(found, StructType):
        raise SchemaUnusable("the schema has to name columns")
    return found
