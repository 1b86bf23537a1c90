"""Runs the integration tests of kafka-python's sdist against a broker that runs already."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.compat.kafka_python.distribution import make_distribution
from tests.compat.kafka_python.plugin import CERTIFICATES, LISTENERS
from tests.compat.kafka_python.verdict import Exclusion, Verdict, judge, read_outcomes
from tests.support.process import ManagedProcess

REPOSITORY: Final = Path(__file__).parents[3]
SDIST: Final = REPOSITORY / ".cache" / "kafka-python" / "sdist"
"""Where tools/setup/kafka_python_suite.sh unpacks it."""

KAFKA_VERSION: Final = "4.3.0"
"""What the suite is told to meet, and what kafka-python takes us for: test_kafka_version_infer compares."""
BROKER_SETTINGS: Final = (
    "partition.group_min_session_timeout_ms=1000",
    "gateway.default_partitions=4",
    "controller.default_partitions=4",
    "gateway.authorizer=acl",
    "gateway.allow_everyone_if_no_acl_found=true",
)
"""As in the suite's own kafka.properties: short sessions, its default of partitions, and an authorizer."""
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER: Final = "alice"
PASSWORD: Final = "alice-secret"
"""Of `KafkaFixture`."""
CA_FILE: Final = "ca-cert"
"""Whom the suite's clients trust."""
SUITE_TIMEOUT_S: Final = 1200.0
"""Two minutes on an idle machine."""
TEST_TIMEOUT_S: Final = 120
"""The suite's own 300 s are for brokers that it starts."""

DIRECTORY: Final = "test/integration"
SHARE: Final = (
    "test_admin_integration.py::test_create_partitions",
    "test_admin_integration.py::test_alter_replica_log_dirs",
    "test_admin_integration.py::test_describe_group_exists",
    "test_consumer_integration.py::test_kafka_version_infer",
    "test_consumer_integration.py::test_group",
    "test_producer_integration.py::test_transactional_producer_messages",
    "test_sasl_integration.py::test_produce_and_consume[SCRAM-SHA-256]",
    "test_ssl_integration.py::TestSSLConnection::test_legacy_kafka_client_ssl",
)
"""Some tests of each module, for `make test`."""


class SuiteDidNotRunError(Exception):
    """pytest ended without a report: its output is the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One that runs, as the suite meets it."""

    listeners: Mapping[str, str]
    """HOST:PORT by `security.protocol`."""
    certificates: Path
    """The directory of `CA_FILE`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The suite, and where its output goes."""

    directory: Path
    sdist: Path = SDIST

    def run(
        self, broker: Broker, exclusions: Sequence[Exclusion], tests: Sequence[str] = ()
    ) -> Verdict:
        """Runs all tests, or those named by file and test. Raises SuiteDidNotRunError, TimeoutError."""
        if not (self.sdist / DIRECTORY).is_dir():
            raise SuiteDidNotRunError(f"{self.sdist}: `make compat-kafka-python` downloads it")
        report = self.directory / "report.xml"
        report.unlink(missing_ok=True)
        process = self._process(broker, report, tests)
        process.start()
        try:
            process.wait(timeout_s=SUITE_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{error}\n{process.log_tail()}") from error
        finally:
            process.stop()
        if not report.exists():
            raise SuiteDidNotRunError(process.log_tail())
        return judge(read_outcomes(report), exclusions, whole=not tests)

    def _process(self, broker: Broker, report: Path, tests: Sequence[str]) -> ManagedProcess:
        """Its own settings of pytest hold, and of ours none: in the sdist, with its pyproject.toml."""
        distribution = self.directory / "distribution"
        make_distribution(distribution)
        pytest = (
            *(sys.executable, "-m", "pytest", "-p", "tests.compat.kafka_python.plugin"),
            *("-p", "no:cacheprovider", "--timeout", str(TEST_TIMEOUT_S), "--tb", "short"),
            *("--show-capture", "no", "-rs", f"--junitxml={report}"),
            *([f"{DIRECTORY}/{test}" for test in tests] or [DIRECTORY]),
        )
        return ManagedProcess(
            "kafka-python's suite",
            pytest,
            log_path=self.directory / "suite.log",
            directory=self.sdist,
            environment={
                LISTENERS: json.dumps(dict(broker.listeners)),
                CERTIFICATES: str(broker.certificates),
                "KAFKA_VERSION": KAFKA_VERSION,
                "KAFKA_ROOT": str(distribution),
                "PROJECT_ROOT": str(distribution),
                "PYTHONPATH": str(REPOSITORY),
                "PYTEST_ADDOPTS": "",
            },
        )
