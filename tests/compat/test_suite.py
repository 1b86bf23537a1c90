"""kafka-python's suite is run as its sdist has it: here a small one of our own stands for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.kafka_python.suite import KAFKA_VERSION, Suite, SuiteDidNotRunError
from tests.compat.kafka_python.verdict import Exclusion

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
"""A run of pytest each."""

INTEGRATION = """
import os
import pytest
from test.service import ExternalService, SpawnedService
from test.testutil import MARK

def test_broker():
    assert (os.environ["KAFKA_URI"], os.environ["KAFKA_VERSION"]) == (MARK, "{version}")
    assert os.path.isdir(os.environ["KAFKA_ROOT"])
    assert ExternalService("here", 1).port == 1

def test_starts_none():
    SpawnedService(["kafka"], {{}})
"""


@pytest.fixture
def sdist(tmp_path: Path) -> Path:
    """The parts of an sdist that matter; its `test` is no package."""
    root = tmp_path / "sdist"
    (root / "test" / "integration").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "test" / "testutil.py").write_text('MARK = "kafka://127.0.0.1:1"\n')
    package = root / "test" / "integration"
    (package / "__init__.py").touch()
    (package / "test_a.py").write_text(INTEGRATION.format(version=KAFKA_VERSION))
    return root


def test_its_modules_are_found_and_told_of_the_broker(tmp_path: Path, sdist: Path) -> None:
    suite = Suite(directory=tmp_path / "logs", sdist=sdist)
    found = suite.run("127.0.0.1:1", [Exclusion(tests="test_a::test_starts_none", reason="none")])
    assert found.good, found.lines()
    assert found.passed == ("test_a::test_broker",)


def test_some_of_its_tests(tmp_path: Path, sdist: Path) -> None:
    suite = Suite(directory=tmp_path / "logs", sdist=sdist)
    found = suite.run("127.0.0.1:1", [], ["test_a.py::test_starts_none"])
    assert set(found.failed) == {"test_a::test_starts_none"}
    assert "no broker is started" in found.failed["test_a::test_starts_none"]


def test_a_suite_that_cannot_run(tmp_path: Path, sdist: Path) -> None:
    with pytest.raises(SuiteDidNotRunError, match="make compat-kafka-python"):
        Suite(directory=tmp_path / "logs", sdist=tmp_path).run("127.0.0.1:1", [])
    (sdist / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--no-such'\n")
    with pytest.raises(SuiteDidNotRunError, match="no-such"):
        Suite(directory=tmp_path / "logs", sdist=sdist).run("127.0.0.1:1", [])
