"""Tables that jobs write: Delta, Iceberg or plain Parquet behind one port.

A writer's commit is one transaction with the rows, the writer's version and its note, so that a job
that is killed and started again finds how far it came in the table itself.
"""

from highwater.spark.tables.choice import open_table
from highwater.spark.tables.formats import TableFormat
from highwater.spark.tables.port import Committed, Table

__all__ = ["Committed", "Table", "TableFormat", "open_table"]
