"""Instances as protobuf and back; what is unlimited is absent there."""

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState


def instance_to_pb(state: InstanceState) -> pb.InstanceState:
    """One instance as protobuf."""
    networks = state.allowed_networks
    return pb.InstanceState(
        instance=state.instance,
        produce_bytes_per_second=state.produce_bytes_per_second,
        consume_bytes_per_second=state.consume_bytes_per_second,
        storage_bytes=state.storage_bytes,
        listeners=[
            pb.InstanceListener(
                listener=each.listener,
                port=each.port,
                advertised_host=each.advertised_host,
                advertised_port=each.advertised_port,
            )
            for each in state.listeners
        ],
        allowed_networks=None if networks is None else pb.Networks(cidr=networks),
        connections_max=state.connections_max,
        partitions_max=state.partitions_max,
        groups_max=state.groups_max,
        message_bytes_max=state.message_bytes_max,
        delete_protection=state.delete_protection,
        purge_at_ms=state.purge_at_ms,
        token_audience=state.token_audience,
        certificates=state.certificates,
        open_if_no_acl=state.open_if_no_acl,
    )


def instance_from_pb(message: pb.InstanceState) -> InstanceState:
    """One instance from protobuf."""
    given = {field.name for field, _ in message.ListFields()}
    return InstanceState(
        instance=InstanceId(message.instance),
        # A limit of 0 is listed, since these fields are optional ones.
        produce_bytes_per_second=(
            message.produce_bytes_per_second if "produce_bytes_per_second" in given else None
        ),
        consume_bytes_per_second=(
            message.consume_bytes_per_second if "consume_bytes_per_second" in given else None
        ),
        storage_bytes=message.storage_bytes if "storage_bytes" in given else None,
        listeners=tuple(
            InstanceListener(
                listener=each.listener,
                port=each.port,
                advertised_host=each.advertised_host,
                advertised_port=each.advertised_port,
            )
            for each in message.listeners
        ),
        allowed_networks=(
            tuple(message.allowed_networks.cidr) if "allowed_networks" in given else None
        ),
        connections_max=message.connections_max if "connections_max" in given else None,
        partitions_max=message.partitions_max if "partitions_max" in given else None,
        groups_max=message.groups_max if "groups_max" in given else None,
        message_bytes_max=message.message_bytes_max if "message_bytes_max" in given else None,
        delete_protection=message.delete_protection,
        purge_at_ms=message.purge_at_ms if "purge_at_ms" in given else None,
        token_audience=message.token_audience,
        certificates=message.certificates,
        open_if_no_acl=message.open_if_no_acl if "open_if_no_acl" in given else None,
    )
