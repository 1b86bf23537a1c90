"""Sets, lists and removes users at the controller, for the command line: their SCRAM credentials."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_access import scram_credential_to_pb
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.errors import HighwaterError
from highwater.model.scram import (
    SALT_BYTES_DEFAULT,
    ScramMechanism,
    salted_password,
    scram_credential,
)

TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownUser:
    """A user, and the iterations of its credentials by mechanism."""

    name: str
    iterations: dict[ScramMechanism, int]


def set_user(
    address: str,
    instance: str,
    name: str,
    password: bytes,
    mechanism: ScramMechanism,
    iterations: int,
) -> None:
    """Gives a user a password for one mechanism; others stay. Raises HighwaterError.

    Only what is made of the password leaves this process.
    """
    salt = secrets.token_bytes(SALT_BYTES_DEFAULT)
    made = scram_credential(
        mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(mechanism, password, salt=salt, iterations=iterations),
    )
    change = pb.ScramChange(user=name, mechanism=mechanism, credential=scram_credential_to_pb(made))
    _alter(address, instance, [change])


def delete_user(address: str, instance: str, name: str) -> None:
    """Removes all credentials of a user. Raises HighwaterError."""
    (known,) = list_users(address, instance, [name])
    for mechanism in known.iterations:  # One request changes one credential of a user.
        _alter(address, instance, [pb.ScramChange(user=name, mechanism=mechanism)])


def list_users(address: str, instance: str, names: Sequence[str] = ()) -> list[KnownUser]:
    """These users, or all, by name. Raises HighwaterError, also for one that is not there."""

    async def work(endpoints: ControllerEndpoints) -> pb.DescribeScramUsersResponse:
        request = pb.DescribeScramUsersRequest(instance=instance, users=names)
        return await ControllerClient(endpoints).describe_scram_users(request, timeout_s=TIMEOUT_S)

    users = converse(address, work).users
    _check(users)
    found = [
        KnownUser(
            name=user.user,
            iterations={ScramMechanism(one.mechanism): one.iterations for one in user.credentials},
        )
        for user in users
    ]
    return sorted(found, key=lambda user: user.name)


def _alter(address: str, instance: str, changes: list[pb.ScramChange]) -> None:
    async def work(endpoints: ControllerEndpoints) -> pb.AlterScramUsersResponse:
        request = pb.AlterScramUsersRequest(instance=instance, changes=changes)
        return await ControllerClient(endpoints).alter_scram_users(request, timeout_s=TIMEOUT_S)

    _check(converse(address, work).users)


def _check(users: Sequence[pb.ScramUser]) -> None:
    for user in users:
        if user.error.error_code:
            raise HighwaterError(f"user {user.user}: {user.error.message}")
