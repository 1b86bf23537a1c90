"""h2spec, which checks HTTP/2 servers against RFC 7540 and RFC 7541 case by case, on our server."""

from __future__ import annotations

import asyncio
import ssl
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import uvloop

from highwater.rpc.addresses import TcpAddress
from highwater.rpc.server import RpcServer
from tests.support.certificates import make_certificate, tls_contexts

PROGRAM = Path(__file__).parents[2] / ".cache" / "h2spec" / "h2spec"
CASES = 146
"""All of the version that the set-up builds: 145, and one that is for `--strict` alone."""
CASE_TIMEOUT_S = 2
"""A case that expects the end of a connection, or an answer, waits so long for it."""
RUN_TIMEOUT_S = 120


LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
"""Services run on the first one."""


async def _run(port: int, report: Path, *flags: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(str(PROGRAM), "--strict", "--host", "127.0.0.1", "--port", str(port)),
        *("--timeout", str(CASE_TIMEOUT_S), "--junit-report", str(report), *flags),
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


async def _every_case_passes(directory: Path, tls: ssl.SSLContext | None) -> None:
    failures: list[str] = []
    server = RpcServer(
        TcpAddress("127.0.0.1", 0),
        tls=tls,
        on_failure=lambda name, error: failures.append(f"{name}: {error}"),
    )
    await server.start()
    report = directory / "report.xml"
    output = await _run(server.port, report, *(() if tls is None else ("--tls", "--insecure")))
    statistics = server.statistics()
    await server.stop(drain_s=0)
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    total = {
        name: sum(int(suite.get(name) or 0) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    }
    assert total == {"tests": CASES, "failures": 0, "errors": 0, "skipped": 0}, output[-4000:]
    assert failures == []
    assert statistics.connections_opened >= CASES


@pytest.mark.timeout(RUN_TIMEOUT_S + 30)
@pytest.mark.parametrize(
    ("loop", "with_tls"),
    [
        pytest.param("uvloop", False, id="uvloop"),
        pytest.param("asyncio", False, id="asyncio"),
        pytest.param("uvloop", True, id="uvloop-tls", marks=pytest.mark.full),
        pytest.param("asyncio", True, id="asyncio-tls", marks=pytest.mark.full),
    ],
)
def test_every_case_passes(tmp_path: Path, loop: str, with_tls: bool) -> None:
    assert PROGRAM.exists(), "`make h2spec` builds it; `make test` does that by itself"
    tls = tls_contexts(make_certificate(tmp_path))[0] if with_tls else None
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(_every_case_passes(tmp_path, tls))
