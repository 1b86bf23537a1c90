import asyncio
from pathlib import Path
from types import MappingProxyType

import pytest

from highwater.embed.supervisor import run as module
from highwater.embed.up.options import UpOptions
from highwater.model.errors import ConfigError


def test_runs_a_supervisor_with_time_for_its_stages(monkeypatch, capsys):
    seen = []

    class Supervisor:
        addresses = (("h", 1), ("h", 5))
        metrics_addresses = MappingProxyType({"quota": "m:2"})

        def __init__(self, options, log):
            self.options = options
            self.failed = asyncio.get_running_loop().create_future()

        async def start(self):
            seen.append(self.options)

        async def stop(self):
            seen.append("stopped")

    def run(build, log, *, stop_timeout_s):
        async def main():
            service = await build()
            await service.start()
            await service.stop()

        asyncio.run(main())
        seen.append(stop_timeout_s)
        return 6

    monkeypatch.setattr(module, "Supervisor", Supervisor)
    monkeypatch.setattr(module.lifecycle, "run", run)
    monkeypatch.setattr(module, "forward_standard_logging", lambda _log: None)
    options = UpOptions(data_dir=Path("d"), nodes=3)
    assert module.run_supervised(options) == 6
    assert seen == [options, "stopped", module.STOP_TIMEOUT_S]
    assert capsys.readouterr().out == (
        "Metrics of quota: http://m:2/metrics\nHighwater is ready on h:1\n"
    )


def test_settings_are_checked_first():
    options = UpOptions(data_dir=Path("d"), separate=True, log_level="loud")
    with pytest.raises(ConfigError, match=r"log\.level"):
        module.run_supervised(options)
