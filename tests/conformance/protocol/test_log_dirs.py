"""DescribeLogDirs: disk space, unknown topics, and no offline replicas; AlterReplicaLogDirs."""

from __future__ import annotations

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestAlterReplicaLogDir,
    AlterReplicaLogDirsRequestAlterReplicaLogDirTopic,
)
from highwater.kafka.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsRequestDescribableLogDirTopic,
)
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection


def test_space_and_partitions_that_are_not_there(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, partitions=2)
    asked = [
        DescribeLogDirsRequestDescribableLogDirTopic(topic, [0, 7]),
        DescribeLogDirsRequestDescribableLogDirTopic("no-such-topic", [0]),
    ]
    found: list[tuple[str, int, int]] = []
    for node in cluster.nodes:
        with RawConnection.to(f"{node.host}:{node.port}") as connection:
            answer = connection.ask(DescribeLogDirsRequest(topics=asked), 5)
        assert answer.error_code == 0
        assert len(answer.results) >= 1
        for result in answer.results:
            assert (result.error_code, result.log_dir[:1]) == (0, "/")
            assert 0 < result.usable_bytes <= result.total_bytes
            found += [
                (one.name, partition.partition_index, partition.partition_size)
                for one in result.topics
                for partition in one.partitions
            ]
    assert found == [(topic, 0, 0)]


def test_no_topics_is_not_all_topics(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    for asked, expected in ((None, {topic}), ([], set())):
        names: set[str] = set()
        for node in cluster.nodes:
            with RawConnection.to(f"{node.host}:{node.port}") as connection:
                answer = connection.ask(DescribeLogDirsRequest(topics=asked), 2)
            names |= {one.name for result in answer.results for one in result.topics}
        assert names & {topic} == expected


def test_a_replica_is_asked_to_stay_or_to_go_where_nothing_is(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    asked = [DescribeLogDirsRequestDescribableLogDirTopic(topic, [0])]
    codes: dict[str, list[int]] = {"stay": [], "go": []}
    for node in cluster.nodes:
        with RawConnection.to(f"{node.host}:{node.port}") as connection:
            described = connection.ask(DescribeLogDirsRequest(topics=asked), 4)
            for what, path in (("stay", described.results[0].log_dir), ("go", "/no/such/dir")):
                answer = connection.ask(
                    AlterReplicaLogDirsRequest(
                        [
                            AlterReplicaLogDirsRequestAlterReplicaLogDir(
                                path,
                                [AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(topic, [0])],
                            )
                        ]
                    ),
                    2,
                )
                ((result,),) = [one.partitions for one in answer.results]
                codes[what].append(result.error_code)
    others = [ErrorCode.REPLICA_NOT_AVAILABLE] * (len(cluster.nodes) - 1)
    assert sorted(codes["stay"]) == [ErrorCode.NONE, *others]
    assert codes["go"] == [ErrorCode.LOG_DIR_NOT_FOUND] * len(cluster.nodes)
