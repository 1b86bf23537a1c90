"""The coordinators of the default instance, or those of all other instances."""

from dataclasses import dataclass

from highwater.hop.coordinator import CoordinatorCall
from highwater.partition.coordinator.coordinator_log import DataPlaneLog
from highwater.partition.groups.runtime import GroupCoordinator
from highwater.partition.transactions.runtime import TRANSACTION_APIS, TransactionCoordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPair:
    """Implements `CoordinatorPort`: each call goes to the coordinator of its API. Lives as long as the
    node.
    """

    groups: GroupCoordinator
    group_log: DataPlaneLog
    transactions: TransactionCoordinator
    state_log: DataPlaneLog

    def submit(self, call: CoordinatorCall) -> None:
        """Takes the call; never raises and never blocks."""
        if call.api_key in TRANSACTION_APIS:
            self.transactions.submit(call)
        else:
            self.groups.submit(call)

    def cancel(self, call: CoordinatorCall) -> None:
        """The client is gone."""
        if call.api_key in TRANSACTION_APIS:
            self.transactions.cancel(call)
        else:
            self.groups.cancel(call)

    async def stop(self) -> None:
        """Clean stop of both."""
        await self.transactions.stop()
        await self.groups.stop()
