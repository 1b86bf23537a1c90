import socket

import pytest


@pytest.fixture
def unused_port():
    """A port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
