"""Apache Kafka's own command-line tools, run by class name from the jars of `tools/kafka`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.maven import REPOSITORY, copy_dependencies, java_executable

KAFKA_POM = REPOSITORY / "tools" / "kafka" / "pom.xml"
KAFKA_VERSION = "4.3.1"
TOOL_TIMEOUT_S = 120.0

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
ACLS = "org.apache.kafka.tools.AclCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TRANSACTIONAL_MESSAGE_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
BROKER_API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
END_TO_END_LATENCY = "org.apache.kafka.tools.EndToEndLatency"
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"

# With only the first compiler tier and the serial collector a short-lived tool needs half the time.
_JVM_OPTIONS = (
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def kafka_jars() -> Path:
    """The directory with Kafka's jars, filled by Maven on first use. Raises JavaMissing."""
    return copy_dependencies(KAFKA_POM, "kafka")


def java_command(
    tool: str, *arguments: str, jvm_options: tuple[str, ...] = _JVM_OPTIONS
) -> list[str]:
    """The command line that runs `tool` (a class of Kafka's) with `arguments`."""
    jars = kafka_jars()
    return [java_executable(), *jvm_options, "-cp", f"{jars}/*", tool, *arguments]


def java_tool(
    tool: str,
    *arguments: str,
    stdin: str | bytes | None = None,
    timeout_s: float = TOOL_TIMEOUT_S,
    check: bool = True,
    jvm_options: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs a Kafka tool to its end and returns its output as text (UTF-8).

    Raises subprocess.TimeoutExpired, and AssertionError with the output when `check` is set and
    the exit code is not 0.
    """
    command = java_command(tool, *arguments, jvm_options=(*_JVM_OPTIONS, *jvm_options))
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(command, input=data, capture_output=True, timeout=timeout_s, check=False)
    result = subprocess.CompletedProcess(
        [tool, *arguments],
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )
    if check and result.returncode != 0:
        raise AssertionError(
            f"{tool} {' '.join(arguments)} exited with {result.returncode}\n"
            f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
        )
    return result
