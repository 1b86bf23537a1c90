"""Adds, lists and removes ACLs at the controller, for the command line."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse, read_image
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.convert_access import acl_to_pb
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.model.acls import Acl
from highwater.model.errors import HighwaterError

TIMEOUT_S = 10.0


def add_acl(address: str, acl: Acl) -> None:
    """Adds an entry; one that is there already stays. Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> pb.CreateAclsResponse:
        request = pb.CreateAclsRequest(acls=[acl_to_pb(acl)])
        return await ControllerClient(endpoints).create_acls(request, timeout_s=TIMEOUT_S)

    _check(converse(address, work).errors[0])


def remove_acl(address: str, acl: Acl) -> bool:
    """Removes this entry; whether it was there. Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> pb.DeleteAclsResponse:
        this = pb.AclFilter(
            instance=acl.instance,
            resource_type=acl.resource_type,
            pattern_type=acl.pattern_type,
            name=acl.name,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission=acl.permission,
        )
        request = pb.DeleteAclsRequest(filters=[this])
        return await ControllerClient(endpoints).delete_acls(request, timeout_s=TIMEOUT_S)

    (removal,) = converse(address, work).removals
    _check(removal.error)
    return bool(removal.acls)


def list_acls(address: str, instance: str) -> list[Acl]:
    """All entries of an instance, in order. Raises HighwaterError."""

    async def work(endpoints: ControllerEndpoints) -> list[Acl]:
        image = await read_image(endpoints, TIMEOUT_S)
        return sorted(acl for acl in image.acls if acl.instance == instance)

    return converse(address, work)


def _check(error: pb.ApiError) -> None:
    if error.error_code:
        raise HighwaterError(error.message)
