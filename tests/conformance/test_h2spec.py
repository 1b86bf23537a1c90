"""h2spec, which checks HTTP/2 servers against RFC 7540 and RFC 7541 case by case, on our server."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from highwater.rpc.addresses import TcpAddress
from highwater.rpc.server import RpcServer

PROGRAM = Path(__file__).parents[2] / ".cache" / "h2spec" / "h2spec"
CASES_MIN = 140
CASE_TIMEOUT_S = 2
"""A case that expects the end of a connection, or an answer, waits so long for it."""
RUN_TIMEOUT_S = 120


async def _run(port: int, report: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(str(PROGRAM), "--strict", "--host", "127.0.0.1", "--port", str(port)),
        *("--timeout", str(CASE_TIMEOUT_S), "--junit-report", str(report)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode(errors="replace")


@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
async def test_every_case_passes(tmp_path: Path) -> None:
    assert PROGRAM.exists(), "`make h2spec` builds it; `make test` does that by itself"
    failures: list[str] = []
    server = RpcServer(
        TcpAddress("127.0.0.1", 0),
        on_failure=lambda name, error: failures.append(f"{name}: {error}"),
    )
    await server.start()
    report = tmp_path / "report.xml"
    output = await _run(server.port, report)
    statistics = server.statistics()
    await server.stop(drain_s=0)
    suites = ET.parse(report).getroot().iter("testsuite")
    counts = [
        {name: int(suite.get(name) or 0) for name in ("tests", "failures", "errors", "skipped")}
        for suite in suites
    ]
    total = {name: sum(count[name] for count in counts) for name in counts[0]}
    assert total["failures"] + total["errors"] == 0, output[-4000:]
    assert total["tests"] - total["skipped"] >= CASES_MIN, output[-1000:]
    assert failures == []
    assert statistics.connections_opened >= CASES_MIN
