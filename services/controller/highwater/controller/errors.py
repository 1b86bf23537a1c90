"""Errors of the controller's shell that its edge turns into gRPC statuses."""

from highwater.model.errors import NotControllerError


class NotActiveError(NotControllerError):
    """This controller does not lead, or just stopped leading."""

    def __init__(self, active_address: str = "") -> None:
        """Keep host:port of the active controller, empty if it is not known."""
        super().__init__("this controller is not active")
        self.active_address = active_address


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """The first error that is not itself a group; task groups wrap even a single one."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, ExceptionGroup) else error
