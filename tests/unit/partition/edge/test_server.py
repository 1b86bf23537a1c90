"""The methods of a partition node's server."""

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.transport import SERVICE, path_of
from highwater.partition.edge.server import add_to
from highwater.partition.edge.stream_drain import StreamDrain


class Methods:
    """Keeps what is added."""

    def __init__(self):
        self.streams, self.unary = {}, {}

    def add_stream(self, path, handler):
        self.streams[path] = handler

    def add_unary(self, path, handler, *, deserialize, serialize):
        self.unary[path] = (deserialize(b""), serialize)


async def test_every_method_of_the_service_is_served_as_it_is_declared():
    methods = Methods()
    add_to(
        methods,
        plane=None,
        queries=None,
        log_dirs=None,
        loggers=None,
        coordinator=None,
        drain=StreamDrain(),
        on_failure=lambda _path, _error: None,
    )
    service = pb.DESCRIPTOR.services_by_name["PartitionService"]
    assert service.full_name == SERVICE
    declared = {path_of(method.name): method for method in service.methods}
    assert methods.streams.keys() | methods.unary.keys() == declared.keys()
    for path, (request, serialize) in methods.unary.items():
        method = declared[path]
        assert request.DESCRIPTOR is method.input_type
        assert serialize(method.output_type._concrete_class()) == b""
        assert not (method.client_streaming or method.server_streaming)
    for path in methods.streams:
        assert declared[path].client_streaming
        assert declared[path].server_streaming
