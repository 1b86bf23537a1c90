"""The job `load` on a standalone cluster of this host, with one worker and with two, of one core each.

Every run is a job of its own, started by spark-submit, with new executors. The time is the one that the
job tells, so that neither Java's start nor spark-submit's is in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.peer import Peer
from tests.bench.spark_comparison import Comparison, Series, compare, in_turns
from tests.bench.spark_load import TARGETS, Loads, Told
from tests.bench.spark_session import SETTINGS
from tests.bench.spark_topics import Filled
from tests.support.spark_workers import SparkWorkers

CORES = 1
TABLE_FORMAT = "delta"
JOB_TIMEOUT_S = 3600.0
_HADOOP = "spark.hadoop."


class JobFailed(RuntimeError):
    """The job ended with another exit code than 0, or told nothing."""


def measure(
    loads: Loads,
    peers: Sequence[Peer],
    filled: Filled,
    *,
    row: str,
    workers: int,
    pairs: int,
    scratch: Path,
    tell: Callable[[str], None],
) -> Comparison:
    """Loads the topic of each broker `pairs` times in turn. Raises JobFailed, LoadIncomplete."""
    from highwater.spark.session import connector_jars

    directory = scratch / f"{row.replace('/', '-')}-{peers[0].name}"
    directory.mkdir()
    cluster = SparkWorkers(
        directory, connector_jars()[0].parent, workers=workers, cores=CORES,
        settings={name: value for name, value in SETTINGS.items() if name.startswith(_HADOOP)},
    )  # fmt: skip

    def run(peer: Peer) -> float:
        def load(table: Path) -> Told:
            job = cluster.job(
                "load", "--bootstrap", peer.bootstrap, "--topic", filled.topic,
                "--table", str(table), "--table-format", TABLE_FORMAT, "--json",
            )  # fmt: skip
            job.start()
            try:
                code = job.wait(timeout_s=JOB_TIMEOUT_S)
            finally:
                job.stop()
            if code != 0:
                raise JobFailed(f"{peer.name}: exit code {code}\n{job.log_tail()}")
            return told(job.log_path.read_text(errors="replace"))

        rate = loads.checked(peer, filled, TABLE_FORMAT, load)
        tell(f"{row}, {peer.name}: {rate:,.0f} rows/s")
        return rate

    try:
        cluster.start()
        return compare(row, "rows/s", peers, in_turns(peers, pairs, run), targets=TARGETS)
    finally:
        cluster.stop()


def told(log: str) -> Told:
    """What `load --json` told in its log. Raises JobFailed."""
    for line in reversed(log.splitlines()):
        if line.startswith('{"version"'):
            found = json.loads(line)
            return Told(records=found["records"], seconds=float(found["seconds"]))
    raise JobFailed(f"no result in the log\n{log[-2000:]}")


def speed_ups(row: str, one: Comparison, two: Comparison) -> list[Comparison]:
    """Two workers beside one, for each broker that ran with both."""
    return [
        Comparison(
            row=row,
            unit=two.unit,
            ours=Series(
                name=f"{after.name}, 2 workers", version=after.version, values=after.values
            ),
            beside=Series(name="1 worker", version=before.version, values=before.values),
        )
        for before, after in ((one.ours, two.ours), (one.beside, two.beside))
        if before is not None and after is not None
    ]
