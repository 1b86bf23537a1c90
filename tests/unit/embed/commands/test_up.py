from pathlib import Path

import pytest

from highwater.embed.commands import up as module
from highwater.embed.up.options import UpOptions


@pytest.fixture
def options(monkeypatch):
    """The options parsed from the command line."""
    seen = []

    def run(options):
        seen.append(options)
        return 3

    monkeypatch.setattr(module, "_run", run)
    return seen


def test_defaults(highwater, options):
    code, _, _ = highwater("up")
    assert code == 3
    assert options == [UpOptions(data_dir=Path(".highwater"))]


def test_every_flag(highwater, options):
    highwater(
        "up", "--data-dir", "d", "--host", "h", "--port", "1", "--nodes", "3", "--gateways", "2",
        "--separate", "--metrics-port", "9", "--etcd", "a:1, b:2", "--log-level", "debug",
        "--config", "f.toml", "--set", "gateway.a=1", "--set", "quota.b=2",
    )  # fmt: skip
    assert options == [
        UpOptions(
            data_dir=Path("d"),
            host="h",
            port=1,
            nodes=3,
            gateways=2,
            separate=True,
            metrics_port=9,
            etcd=("a:1", "b:2"),
            log_level="debug",
            config_file=Path("f.toml"),
            assignments=("gateway.a=1", "quota.b=2"),
        )
    ]


@pytest.mark.parametrize("flag", [("--nodes", "0"), ("--port", "65536"), ("--gateways", "-1")])
def test_numbers_out_of_range(highwater, options, flag):
    code, _, err = highwater("up", *flag)
    assert code == 2
    assert flag[0] in err
    assert options == []


def test_separate_services_need_a_gateway(highwater, options):
    code, _, err = highwater("up", "--separate", "--gateways", "0")
    assert code == 2
    assert "at least one gateway" in err
    assert options == []


@pytest.mark.parametrize(
    ("flags", "runner"),
    [((), "embedded.run.run_embedded"), (("--nodes", "2"), "supervisor.run.run_supervised")],
)
def test_mode(highwater, monkeypatch, flags, runner):
    monkeypatch.setattr(f"highwater.embed.{runner}", lambda _options: 7)
    assert highwater("up", *flags)[0] == 7
