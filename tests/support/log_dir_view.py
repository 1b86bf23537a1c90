"""What brokers say of their log directories, and requests to move replicas between them."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestAlterReplicaLogDir,
    AlterReplicaLogDirsRequestAlterReplicaLogDirTopic,
)
from highwater.kafka.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestDescribableLogDirTopic,
)
from tests.support.process import wait_until
from tests.support.wire import RawConnection


@dataclass(frozen=True)
class Placed:
    """One log or copy of partition 0."""

    path: str
    size: int
    lag: int
    future: bool


class LogDirView:
    """One broker's, at its own address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def of(self, topic: str) -> list[Placed]:
        """Where partition 0 of a topic is; the log first."""
        asked = [DescribeLogDirsRequestDescribableLogDirTopic(topic, [0])]
        with RawConnection.to(self._address) as connection:
            answer = connection.ask(DescribeLogDirsRequest(topics=asked), 4)
        found = [
            Placed(
                result.log_dir,
                partition.partition_size,
                partition.offset_lag,
                partition.is_future_key,
            )
            for result in answer.results
            for one in result.topics
            for partition in one.partitions
        ]
        return sorted(found, key=lambda placed: placed.future)

    def move(self, topic: str, path: str) -> int:
        """Asks for partition 0 to be in a directory; returns the code."""
        wish = AlterReplicaLogDirsRequestAlterReplicaLogDir(
            path, [AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(topic, [0])]
        )
        with RawConnection.to(self._address) as connection:
            answer = connection.ask(AlterReplicaLogDirsRequest([wish]), 2)
        ((result,),) = [one.partitions for one in answer.results]
        code: int = result.error_code
        return code

    def wait_until_there(self, topic: str, path: str, timeout_s: float = 60) -> None:
        """Waits until the log is in a directory and nowhere else; the broker may just be starting."""

        def there() -> bool:
            try:
                placed = self.of(topic)
            except ConnectionRefusedError:
                return False
            return [one.path for one in placed] == [path] and not placed[0].future

        wait_until(there, timeout_s=timeout_s, what=f"{topic} in {path}")
