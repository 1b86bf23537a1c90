"""What ends a stream, in one line each: the edge where Spark's errors become ours."""

import re
from typing import Final

from highwater.model.errors import HighwaterError

LINE_LENGTH_MAX: Final = 400


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
_CAUSE: Final = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)): (.+)$", re.MULTILINE)


def explain(error: BaseException, *, topic: str, bootstrap: str) -> HighwaterError:
    """Returns the error to tell for one that a stream ended with."""
    if isinstance(error, HighwaterError):
        return error
    text = str(error)
    if _LOSS.search(text):
        return RecordsGone(
            f"records of {topic} are gone before they were read (retention, or the topic was made anew): "
            f"{_first_line(text)}"
        )
    if _AWAY.search(text):
        return StreamFailed(f"the cluster at {bootstrap} does not answer, topic {topic}")
    return StreamFailed(f"topic {topic}: {_first_line(text)}")


def _first_line(text: str) -> str:
    causes = _CAUSE.findall(text)
    # The last cause is the first thing that went wrong.
    line = causes[-1][1] if causes else text.strip().partition("\n")[0]
    return line if len(line) <= LINE_LENGTH_MAX else f"{line[:LINE_LENGTH_MAX]}..."
