"""kafka-python's suite is run as its sdist has it: here a small one of our own stands for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.kafka_python.suite import KAFKA_VERSION, Broker, Suite, SuiteDidNotRunError
from tests.compat.kafka_python.verdict import Exclusion

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
"""A run of pytest each."""

FIXTURES = """
class KafkaFixture:
    def __init__(self, transport):
        self.transport, self.tmp_dir = transport, None
        self.open()

    def _jaas_config(self):
        return "PlainLoginModule required;"

    def open(self):
        raise AssertionError("it starts a broker")
"""
INTEGRATION = """
import os
import pytest
from test.integration.fixtures import KafkaFixture
from test.service import ExternalService, SpawnedService
from test.testutil import MARK

@pytest.mark.parametrize(("transport", "port"), [("PLAINTEXT", 1), ("SSL", 2)])
def test_broker(transport, port):
    broker = KafkaFixture(transport)
    assert (broker.host, broker.port, broker.running) == ("127.0.0.1", port, True)
    assert os.path.isfile(os.path.join(broker.ssl_dir, MARK))
    assert broker.tmp_dir.join("x").strpath and broker.jaas_config
    broker.child.dump_logs()
    broker.child.stop()

def test_distribution():
    assert "KAFKA_URI" not in os.environ
    assert os.environ["KAFKA_VERSION"] == "{version}"
    assert os.access(os.path.join(os.environ["KAFKA_ROOT"], "bin", "kafka-topics.sh"), os.X_OK)
    root = os.path.join(os.environ["PROJECT_ROOT"], "servers", "resources", "default")
    with open(os.path.join(root, "sasl_command.conf")) as template:
        told = template.read().format(transport="SSL", sasl_mechanism="PLAIN", jaas_config="x;")
    assert "security.protocol=SSL" in told.splitlines()

def test_starts_none():
    SpawnedService(["kafka"], {{}})
"""


@pytest.fixture
def sdist(tmp_path: Path) -> Path:
    """The parts of an sdist that matter; its `test` is no package."""
    root = tmp_path / "sdist"
    (root / "test" / "integration").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "test" / "testutil.py").write_text('MARK = "ca-cert"\n')
    package = root / "test" / "integration"
    (package / "__init__.py").touch()
    (package / "fixtures.py").write_text(FIXTURES)
    (package / "test_a.py").write_text(INTEGRATION.format(version=KAFKA_VERSION))
    return root


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    (certificates / "ca-cert").touch()
    listeners = {"PLAINTEXT": "127.0.0.1:1", "SSL": "127.0.0.1:2"}
    return Broker(listeners=listeners, certificates=certificates)


def test_its_modules_are_found_and_told_of_the_broker(
    tmp_path: Path, sdist: Path, broker: Broker
) -> None:
    suite = Suite(directory=tmp_path / "logs", sdist=sdist)
    found = suite.run(broker, [Exclusion(tests="test_a::test_starts_none", reason="none")])
    assert found.good, found.lines()
    assert found.passed == (
        "test_a::test_broker[PLAINTEXT-1]",
        "test_a::test_broker[SSL-2]",
        "test_a::test_distribution",
    )


def test_some_of_its_tests(tmp_path: Path, sdist: Path, broker: Broker) -> None:
    suite = Suite(directory=tmp_path / "logs", sdist=sdist)
    found = suite.run(broker, [], ["test_a.py::test_starts_none"])
    assert set(found.failed) == {"test_a::test_starts_none"}
    assert "no broker is started" in found.failed["test_a::test_starts_none"]


def test_a_suite_that_cannot_run(tmp_path: Path, sdist: Path, broker: Broker) -> None:
    with pytest.raises(SuiteDidNotRunError, match="make compat-kafka-python"):
        Suite(directory=tmp_path / "logs", sdist=tmp_path).run(broker, [])
    (sdist / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--no-such'\n")
    with pytest.raises(SuiteDidNotRunError, match="no-such"):
        Suite(directory=tmp_path / "logs", sdist=sdist).run(broker, [])
