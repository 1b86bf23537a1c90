"""Where errors go that nobody awaits: the bugs of callbacks and handlers."""

from collections.abc import Callable

OnFailure = Callable[[str, BaseException], None]
"""Takes what failed, by name, and the error; as `runtime.tasks.TaskOwner` has it."""


def guarded(on_failure: OnFailure, name: str, callback: Callable[[], None]) -> None:
    """Runs a callback whose bug must not reach the connection."""
    try:
        callback()
    except Exception as error:  # noqa: BLE001 - the owner's bug ends its call only.
        on_failure(name, error)
