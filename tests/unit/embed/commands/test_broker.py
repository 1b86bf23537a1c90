import pytest


@pytest.fixture
def started(monkeypatch):
    """The settings that a process would run with."""
    seen = []

    def run(settings):
        seen.append(settings)
        return 4

    monkeypatch.setattr("highwater.embed.combined.broker.run_combined", run)
    return seen


def test_runs_with_settings_of_every_service(highwater, started, tmp_path):
    file = tmp_path / "h.toml"
    file.write_text("[partition]\nnode_id = 3\n")
    code, _, _ = highwater("broker", "--config", str(file), "--set", "gateway.port=19092")
    assert code == 4
    ((settings),) = started
    assert (settings.partition.node_id, settings.gateway.port) == (3, 19092)


def test_prints_the_settings_of_every_service(highwater, started):
    code, out, _ = highwater("broker", "--print-config", "--set", 'broker.roles=["partition"]')
    assert (code, started) == (0, [])
    assert "highwater broker" in out
    assert "highwater partition" in out
    assert "highwater gateway" not in out


def test_a_mistake_is_one_line(highwater, started):
    code, _, err = highwater("broker", "--set", "gateway.port=0")
    assert (code, started) == (2, [])
    assert err.startswith("highwater: gateway.port must not be 0")
    assert err.count("\n") == 1
