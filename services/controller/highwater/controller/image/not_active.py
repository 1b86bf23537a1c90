"""The error for callers of a controller that does not lead, or just stopped leading."""

from highwater.model.errors import NotControllerError


class NotActiveError(NotControllerError):
    """This controller does not lead, or just stopped leading."""

    def __init__(self, active_address: str = "") -> None:
        """Keep host:port of the active controller, empty if it is not known."""
        super().__init__("this controller is not active")
        self.active_address = active_address
