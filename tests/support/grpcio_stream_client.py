"""A process that opens one stream over grpcio at argv[1], and tells when it is open and when it has ended."""

from __future__ import annotations

import asyncio
import sys

from highwater.runtime.grpc_engine import poll_in_completion_queues

END_S_MAX = 60.0


def _failed(name: str, error: BaseException) -> None:
    raise SystemExit(f"{name}: {error!r}")


async def main(address: str) -> None:
    assert poll_in_completion_queues(), "as our services do, before grpcio is loaded"
    from highwater.rpc.grpcio_channel import GrpcioChannel

    channel = GrpcioChannel(address, on_failure=_failed)
    ended = asyncio.Event()
    channel.stream(
        "/test.Service/Method",
        on_message=lambda _: None,
        on_open=lambda: print("open", flush=True),
        on_end=lambda _: ended.set(),
    )
    async with asyncio.timeout(END_S_MAX):
        await ended.wait()
    print("ended", flush=True)
    await channel.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
