"""Converts who may come, what they may do and how much: client quotas, SCRAM credentials and ACLs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.model.acls import Acl
from highwater.model.client_quotas import ClientQuotaKey, QuotaEntity
from highwater.model.ids import InstanceId
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism
from highwater.model.steps import Steps, runs

STEP_ITEMS: Final = 50
"""Items converted in one step: some 0.3 ms."""


def entity_to_pb(entity: QuotaEntity) -> list[pb.QuotaEntityPart]:
    """Whom a client quota is for, as protobuf."""
    return [pb.QuotaEntityPart(type=kind, name=name) for kind, name in entity]


def entity_from_pb(parts: Iterable[pb.QuotaEntityPart]) -> QuotaEntity:
    """Whom a client quota is for, from protobuf, in the order given."""
    return tuple((part.type, part.name if part.HasField("name") else None) for part in parts)


def scram_credential_to_pb(credential: ScramCredential) -> pb.ScramCredential:
    """A SCRAM credential as protobuf."""
    return pb.ScramCredential(
        iterations=credential.iterations,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
    )


def scram_credential_from_pb(message: pb.ScramCredential) -> ScramCredential:
    """A SCRAM credential from protobuf."""
    return ScramCredential(
        iterations=message.iterations,
        salt=message.salt,
        stored_key=message.stored_key,
        server_key=message.server_key,
    )


def acl_to_pb(acl: Acl) -> pb.Acl:
    """An ACL as protobuf."""
    return pb.Acl(
        instance=acl.instance,
        resource_type=acl.resource_type,
        pattern_type=acl.pattern_type,
        name=acl.name,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission=acl.permission,
    )


def acl_from_pb(message: pb.Acl) -> Acl:
    """An ACL from protobuf."""
    return Acl(
        instance=InstanceId(message.instance),
        resource_type=message.resource_type,
        pattern_type=message.pattern_type,
        name=message.name,
        principal=message.principal,
        host=message.host,
        operation=message.operation,
        permission=message.permission,
    )


def client_quotas_to_pb(
    message: pb.ClusterChange, quotas: Mapping[ClientQuotaKey, Mapping[str, float]]
) -> Steps[None]:
    """Client quotas that are new or changed, into a message."""
    for some in runs(tuple(quotas.items()), STEP_ITEMS):
        message.client_quotas.extend(
            pb.ClientQuota(instance=key.instance, entity=entity_to_pb(key.entity), values=values)
            for key, values in some
        )
        yield


def client_quotas_from_pb(
    message: pb.ClusterChange,
) -> Steps[dict[ClientQuotaKey, Mapping[str, float]]]:
    """Client quotas from a message."""
    quotas: dict[ClientQuotaKey, Mapping[str, float]] = {}
    for some in runs(message.client_quotas, STEP_ITEMS):
        for one in some:
            key = ClientQuotaKey(InstanceId(one.instance), entity_from_pb(one.entity))
            quotas[key] = dict(one.values)
        yield
    return quotas


def scram_credentials_to_pb(
    message: pb.ClusterChange, credentials: Mapping[ScramKey, ScramCredential | None]
) -> Steps[None]:
    """SCRAM credentials that are new, changed or removed (None), into a message."""
    for some in runs(list(credentials.items()), STEP_ITEMS):
        message.scram_credentials.extend(
            pb.ScramUserCredential(
                instance=key.instance,
                user=key.user,
                mechanism=key.mechanism,
                credential=None if credential is None else scram_credential_to_pb(credential),
            )
            for key, credential in some
        )
        yield


def scram_credentials_from_pb(
    message: pb.ClusterChange,
) -> Steps[dict[ScramKey, ScramCredential | None]]:
    """SCRAM credentials from a message; None is removed."""
    credentials: dict[ScramKey, ScramCredential | None] = {}
    for some in runs(message.scram_credentials, STEP_ITEMS):
        for one in some:
            key = ScramKey(InstanceId(one.instance), one.user, ScramMechanism(one.mechanism))
            known = one.HasField("credential")
            credentials[key] = scram_credential_from_pb(one.credential) if known else None
        yield
    return credentials


def acls_to_pb(extend: Callable[[Iterable[pb.Acl]], None], acls: Sequence[Acl]) -> Steps[None]:
    """ACLs, as `extend` takes them."""
    for some in runs(acls, STEP_ITEMS):
        extend(map(acl_to_pb, some))
        yield


def acls_from_pb(messages: Sequence[pb.Acl]) -> Steps[list[Acl]]:
    """ACLs from messages."""
    acls: list[Acl] = []
    for some in runs(messages, STEP_ITEMS):
        acls += map(acl_from_pb, some)
        yield
    return acls
