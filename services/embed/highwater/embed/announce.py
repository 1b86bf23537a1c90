"""The line that people and scripts wait for."""


def announce(host: str, port: int) -> None:
    """Says on standard output that clients can connect."""
    print(f"Highwater is ready on {host}:{port}", flush=True)  # noqa: T201 - that is its job.
