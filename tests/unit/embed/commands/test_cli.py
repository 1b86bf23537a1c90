import subprocess
import sys
from importlib import metadata

import pytest


def test_version(highwater):
    code, out, _ = highwater("--version")
    assert (code, out) == (0, f"highwater {metadata.version('highwater')}\n")


@pytest.mark.parametrize("service", ["controller", "quota", "partition", "gateway"])
def test_print_config_names_the_service(highwater, service):
    code, out, _ = highwater(service, "--print-config")
    assert code == 0
    assert out.startswith(f"highwater {service}")
    assert "controllers" in out or service == "controller"


def test_print_config_shows_what_was_set(highwater, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "highwater.toml"
    file.write_text('[gateway]\nport = 1111\nadvertised_host = "example"\n')
    code, out, _ = highwater(
        "gateway", "--config", str(file), "--set", "port=2222", "--print-config"
    )
    assert code == 0
    assert "2222" in out
    assert "1111" not in out
    assert "example" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("gateway", "--set", "nope=1"), "gateway settings: nope is not a setting"),
        (("gateway", "--set", "port"), "expected NAME=VALUE, got 'port'"),
        (("partition", "--config", "/no/file"), "cannot read config file /no/file"),
        (("up", "--set", "port=1"), "expected SECTION.NAME=VALUE"),
        (("up", "--set", "gateway.port=1"), "gateway.port follows from the flags"),
        (("up", "--set", "gateway.nope=1"), "gateway settings: nope is not a setting"),
        (("up", "--data-dir", "/proc/none", "--port", "0"), "cannot write to directory /proc/none"),
        (("up", "--log-level", "loud"), "log.level"),
        (("topic", "list", "--bootstrap", "nowhere"), "expected HOST:PORT, got 'nowhere'"),
        (("topic", "create", "t", "--config", "x"), "--config: expected NAME=VALUE"),
        (("quota", "show", "--data-dir", "/none"), "no broker runs on data directory /none"),
        (
            ("quota", "set", "--produce-bytes-per-second", "-1", "--controller", "127.0.0.1:1"),
            "--produce-bytes-per-second: expected a number",
        ),
    ],
)
def test_usage_errors_are_one_line_and_exit_code_2(highwater, arguments, told):
    code, out, err = highwater(*arguments)
    assert code == 2
    assert err.startswith("highwater: ")
    assert told in err
    assert err.count("\n") == 1
    assert out == ""


def test_an_unreachable_broker_is_exit_code_1(highwater, unused_port):
    code, _, err = highwater("topic", "list", "--bootstrap", f"127.0.0.1:{unused_port}")
    assert code == 1
    assert err == f"highwater: cannot connect to 127.0.0.1:{unused_port}: Connection refused\n"


def test_unknown_option_is_exit_code_2(highwater):
    code, _, err = highwater("up", "--bogus")
    assert code == 2
    assert "--bogus" in err


def test_command_line_starts_without_imports_of_single_commands():
    """Imports slow the start of the broker; see the runtime's logging for rich."""
    heavy = (
        "rich",
        "etcd3",
        "pydantic",
        "grpc",
        "highwater.gateway",
        "highwater.partition",
        "highwater.controller",
    )
    look = f"print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, highwater.embed.commands.cli; {look}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "[]\n"
