import os

import pytest


@pytest.mark.parametrize("service", ["controller", "quota", "partition", "gateway"])
def test_runs_the_service_with_its_settings(highwater, monkeypatch, service):
    seen = []

    def run(config):
        seen.append(config)
        return 5

    monkeypatch.setenv(f"HIGHWATER_{service.upper()}_HOST", "127.0.0.9")
    monkeypatch.setattr(f"highwater.{service}.__main__.run", run)
    code, _, _ = highwater(service, "--set", "port=1234", "--set", "log.level=error")
    assert code == 5
    (config,) = seen
    assert type(config).service == service
    assert (config.host, config.port, config.log.level) == ("127.0.0.9", 1234, "error")


def test_lists_are_json(highwater, monkeypatch):
    seen = []
    monkeypatch.setattr("highwater.partition.__main__.run", lambda config: seen.append(config) or 0)
    highwater("partition", "--set", 'log_dirs=["/a", "/b"]')
    assert [str(path) for path in seen[0].log_dirs] == ["/a", "/b"]


def test_child_of_a_supervisor_is_tied_to_it(highwater, monkeypatch):
    tied = []
    monkeypatch.setattr("highwater.embed.supervisor.parent.die_with", tied.append)
    monkeypatch.setattr("highwater.gateway.__main__.run", lambda _config: 0)
    highwater("gateway", "--parent", str(os.getppid()))
    assert tied == [os.getppid()]
