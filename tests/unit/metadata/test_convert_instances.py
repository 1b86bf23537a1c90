"""Instances through protobuf and back; random ones go with their images in `test_convert`."""

import pytest

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.metadata.convert_instances import instance_from_pb, instance_to_pb
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState

SHOP = InstanceId("shop")


@pytest.mark.parametrize(
    "state",
    [
        InstanceState(instance=SHOP),
        InstanceState(instance=SHOP, produce_bytes_per_second=0, connections_max=0, purge_at_ms=0),
        InstanceState(instance=SHOP, allowed_networks=()),
    ],
)
def test_zero_and_nobody_are_not_unlimited(state: InstanceState) -> None:
    sent = instance_to_pb(state).SerializeToString()
    assert instance_from_pb(pb.InstanceState.FromString(sent)) == state
