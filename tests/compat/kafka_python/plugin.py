"""A plugin for the pytest that runs kafka-python's own tests: the modules that its sdist leaves out.

The sdist has the integration tests, but neither the file that makes `test` a package nor the module
`test.service`. Without the first one `import test.testutil` finds Python's own package `test`. The
second one starts brokers; here a broker runs already. Loaded with `-p`, with the unpacked sdist as working directory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest


class ExternalService:
    """A broker that somebody else started, and whose log is theirs."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port


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


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before any of its modules is imported."""
    provide_modules(Path.cwd())
