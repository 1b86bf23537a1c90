"""The choice of gRPC's engine: early enough, the operator's first, known to this gRPC."""

import os
import subprocess
import sys

import pytest

from highwater.runtime.grpc_engine import POLLING_QUEUES, VARIABLE, poll_in_completion_queues


def run(code, **environment):
    clean = {key: value for key, value in os.environ.items() if key != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_the_engine_cannot_be_chosen_once_grpc_is_loaded(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "grpc", sys)
    assert not poll_in_completion_queues()
    assert VARIABLE not in os.environ


def test_the_operators_choice_stands(monkeypatch):
    monkeypatch.setenv(VARIABLE, "tcp_frame_size_tuning")
    monkeypatch.delitem(sys.modules, "grpc", raising=False)
    assert not poll_in_completion_queues()
    assert os.environ[VARIABLE] == "tcp_frame_size_tuning"


@pytest.mark.slow
def test_the_command_chooses_before_it_loads_grpc():
    done = run(f"import highwater.embed.__main__, os; print(os.environ['{VARIABLE}'])")
    assert done.stdout.strip() == POLLING_QUEUES


@pytest.mark.slow
def test_this_grpc_knows_what_is_chosen():
    done = run(
        "from highwater.runtime.grpc_engine import poll_in_completion_queues as poll\n"
        "assert poll()\n"
        "import grpc\n"
        "grpc.insecure_channel('127.0.0.1:1').close()\n"
    )
    assert "nknown experiment" not in done.stderr
    wrong = run("import grpc; grpc.insecure_channel('127.0.0.1:1').close()", **{VARIABLE: "-nope"})
    assert "nknown experiment" in wrong.stderr, "this gRPC does not tell"
