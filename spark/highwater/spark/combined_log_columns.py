"""A line in combined log format as Spark's columns: `combined_log.parse`, computed by the executors.

`combined_log.LINE` finds the fields; a line that is not in the format has a null time.
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f

from highwater.spark import combined_log


def in_reach(time: Column) -> Column:
    """Returns the time, null outside the years 1 to 9999: Spark has more, Python does not."""
    seconds = f.unix_seconds(time)
    return f.when(seconds.between(combined_log.SECONDS_MIN, combined_log.SECONDS_MAX), time)


@dataclass(frozen=True, slots=True)
class LineColumns:
    """The columns of the lines in `line`.

    `expression` begins as `combined_log.LINE` does, and may have more groups behind its own.
    """

    line: Column
    expression: str = combined_log.LINE

    def group(self, number: int) -> Column:
        """Returns a group of the expression; an empty string if the line does not match."""
        return f.regexp_extract(self.line, self.expression, number)

    @property
    def time(self) -> Column:
        """The time of the request, null if the line is not in the format."""
        text = self.group(combined_log.TIME_GROUP)
        return in_reach(f.try_to_timestamp(text, f.lit(combined_log.SPARK_TIME)))

    @property
    def request(self) -> Column:
        """The request line."""
        return self.group(combined_log.REQUEST_GROUP)

    @property
    def path(self) -> Column:
        """The target of the request without its query."""
        target = f.try_element_at(f.split(self.request, " "), f.lit(2))
        return f.substring_index(f.coalesce(target, self.request), "?", 1)

    @property
    def status(self) -> Column:
        """The status code, an int."""
        return self.group(combined_log.STATUS_GROUP).try_cast("int")

    @property
    def size_bytes(self) -> Column:
        """The bytes sent, a bigint; 0 where the line has a dash."""
        return f.coalesce(self.group(combined_log.BYTES_GROUP).try_cast("bigint"), f.lit(0))
