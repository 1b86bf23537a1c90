"""What ends a stream, in one line each: the edge where Spark's errors become ours."""

import re
from typing import Final

from highwater.model.errors import HighwaterError
from highwater.spark.ending import one_line
from highwater.spark.topic_admin import ClusterAway


class RecordsGone(HighwaterError):
    """The topic no longer has records that the stream has not read."""

    reason = "RECORDS_GONE"


class StreamFailed(HighwaterError):
    """Spark gave up; a restart goes on where it was."""

    reason = "STREAM_FAILED"


_LOSS: Final = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost|offset was changed from")
_AWAY: Final = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect)Exception"
    r"|Timed out waiting for a node assignment|timed out at [0-9]+ after"
)


def explain(error: BaseException, *, topic: str, bootstrap: str) -> HighwaterError:
    """Returns the error to tell for one that a stream ended with."""
    if isinstance(error, HighwaterError):
        return error
    text, line = str(error), one_line(error)
    if _LOSS.search(text) or _LOSS.search(line):
        return RecordsGone(
            f"records of {topic} are gone before they were read (retention, or the topic was made anew): "
            f"{line}"
        )
    if _AWAY.search(text) or _AWAY.search(line):
        return ClusterAway(f"the cluster at {bootstrap} does not answer, topic {topic}")
    return StreamFailed(f"topic {topic}: {line}")
