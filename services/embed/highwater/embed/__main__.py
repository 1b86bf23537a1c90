"""`python -m highwater.embed` is the `highwater` command."""

from highwater.runtime.grpc_engine import poll_in_completion_queues

poll_in_completion_queues()

from highwater.embed.commands.cli import main  # noqa: E402 - loads gRPC, which reads it.

if __name__ == "__main__":
    main()
