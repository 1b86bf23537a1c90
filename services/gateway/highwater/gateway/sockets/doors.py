"""The doors of all instances at a gateway, kept as the image has them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from highwater.gateway.sockets.connection import Connection
from highwater.gateway.sockets.door import Door, Reason
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger


class Doors:
    """Lives as long as the gateway's listener."""

    def __init__(
        self, everybody: set[Connection], *, log: Logger, now_ms: Callable[[], int]
    ) -> None:
        """`everybody` are the connections of the whole gateway."""
        self._everybody = everybody
        self._log: Final = log
        self._lines: Final = LogLimit(now_ms)
        self._doors: dict[InstanceId, Door] = {}
        self._instances: Mapping[InstanceId, InstanceState] = {}

    def __iter__(self) -> Iterator[Door]:
        """Those of instances that have been here."""
        return iter(self._doors.values())

    def of(self, instance: InstanceId) -> Door:
        """The door of an instance, which may be one of the future."""
        found = self._doors.get(instance)
        if found is None:
            found = self._doors[instance] = Door(
                instance, self._everybody, on_refused=self._refused, on_bad_list=self._bad_list
            )
            self._apply(found)
        return found

    def follow(self, instances: Mapping[InstanceId, InstanceState]) -> None:
        """Applies the instances of a new image."""
        if instances == self._instances:
            return
        self._instances = instances
        for door in list(self._doors.values()):
            self._apply(door)
            # A port that still holds a removed door finds it shut. That of the default instance is
            # open without being in the image, and its ports hold it as long as the gateway runs.
            if door.is_shut and door.instance not in instances and not door.connections:
                del self._doors[door.instance]

    def _apply(self, door: Door) -> None:
        state = self._instances.get(door.instance)
        door.is_shut = state.is_deleted if state is not None else door.instance != DEFAULT_INSTANCE
        door.follow(state)

    def _refused(self, door: Door, reason: Reason, host: str) -> None:
        self._lines.write(
            self._log.warning,
            "client_refused",
            kind=door.instance,
            instance=door.instance,
            host=host,
            reason=reason.value,
        )

    def _bad_list(self, door: Door, error: str) -> None:
        self._log.error("allowed_networks_not_understood", instance=door.instance, error=error)
