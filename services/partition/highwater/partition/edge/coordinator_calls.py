"""Coordinator calls as gateways and other nodes send them, made into those that coordinators take."""

from collections.abc import Callable

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.coordinator import CoordinatorCall
from highwater.model.authorization import Principal, TopicView
from highwater.model.ids import InstanceId


def call_of(sent: pb.CoordinatorCall, reply: Callable[[int, bytes], None]) -> CoordinatorCall:
    """The call, to be answered with `reply`."""
    call = CoordinatorCall(
        api_key=sent.api_key,
        api_version=sent.api_version,
        instance=InstanceId(sent.instance),
        client_id=sent.client_id,
        client_host=sent.client_host,
        body=sent.body,
        partition=sent.coordinator_partition,
        deadline_ms=sent.deadline_ms,
        reply=reply,
    )
    if sent.HasField("view"):
        view = sent.view
        principal = Principal(view.principal_type, view.principal_name)
        call.view = TopicView(principal, view.host, view.visible_without_acl)
    return call
