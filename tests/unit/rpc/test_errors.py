from highwater.rpc.errors import RpcError
from highwater.rpc.status import Status, StatusCode


def test_an_error_has_its_status():
    error = RpcError.of(Status(StatusCode.NOT_FOUND, "no topic", [("k", "v")]))
    assert (error.code, error.details, error.metadata) == (
        StatusCode.NOT_FOUND,
        "no topic",
        [("k", "v")],
    )
    assert str(error) == "NOT_FOUND: no topic"
