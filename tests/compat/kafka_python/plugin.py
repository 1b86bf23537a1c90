"""A plugin for the pytest that runs kafka-python's own tests: what its sdist leaves out, and brokers.

The sdist has the integration tests, but neither the file that makes `test` a package nor the module
`test.service`. Without the first one `import test.testutil` finds Python's own package `test`. The
second one starts brokers; here one runs already, and its listeners stand for those that the suite's fixtures would
start, one for each `security.protocol`. Loaded with `-p`, with the unpacked sdist as working directory.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

LISTENERS: Final = "HIGHWATER_LISTENERS"
"""Environment: JSON with HOST:PORT by security.protocol."""
CERTIFICATES: Final = "HIGHWATER_CERTIFICATES"
"""Environment: the directory where the suite finds `ca-cert`, whom its clients trust."""


class ExternalService:
    """A broker that somebody else started, and whose log is theirs."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def dump_logs(self) -> None:
        """Nothing: they are kept."""

    def stop(self) -> None:
        """Nothing: other tests go on with it."""


class SpawnedService:
    """A broker that a test wants to start from a distribution of Kafka: there is none."""

    def __init__(self, args: object, env: object) -> None:
        raise RuntimeError(f"no broker is started for tests of a running one: {args}")


def provide_modules(root: Path) -> None:
    """Puts `test` and `test.service` where `import` looks first."""
    package = ModuleType("test")
    package.__path__ = [str(root / "test")]
    service = ModuleType("test.service")
    vars(service).update(ExternalService=ExternalService, SpawnedService=SpawnedService)
    sys.modules.update({"test": package, "test.service": service})


def attach_fixtures(listeners: Mapping[str, str], certificates: str) -> None:
    """From now on a `KafkaFixture` of the suite is the listener of its transport.

    Its own way to one that runs, KAFKA_URI, knows one listener, and skips tests of the others.
    """
    fixtures = importlib.import_module("test.integration.fixtures")
    temporary = importlib.import_module("py").path.local

    def attach(fixture: Any) -> None:
        host, _, port = listeners[fixture.transport].rpartition(":")
        fixture.host, fixture.port, fixture.running = host, int(port), True
        fixture.child = ExternalService(host, int(port))
        # For what its command-line tools are told.
        fixture.tmp_dir = fixture.tmp_dir or temporary.mkdtemp()
        fixture.ssl_dir = certificates
        fixture.jaas_config = fixture._jaas_config()

    fixtures.KafkaFixture.open = attach


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before any of its modules is imported."""
    provide_modules(Path.cwd())
    attach_fixtures(json.loads(os.environ[LISTENERS]), os.environ[CERTIFICATES])
