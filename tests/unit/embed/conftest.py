import socket
import sys

import pytest

from highwater.embed.commands import cli


@pytest.fixture
def unused_port():
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def highwater(monkeypatch, capsys):
    """Runs the command line in this process; returns exit code, output and errors."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["highwater", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr()
        return ended.value.code or 0, told.out, told.err

    return call
