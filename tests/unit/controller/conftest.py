"""A controller in memory, and a service's clients of it, in process and over gRPC."""

from collections.abc import AsyncIterator

import pytest

from highwater.controller.active import active
from highwater.controller.service import ControllerService
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from tests.support.controller import endpoints_of, started


@pytest.fixture(autouse=True)
def _nobody_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes of these tests live although they do not listen."""

    async def is_refused(_address: str) -> bool:
        return False

    monkeypatch.setattr(active, "is_refused", is_refused)


@pytest.fixture(params=[False, True], ids=["in-process", "grpc"])
async def controller(request: pytest.FixtureRequest) -> AsyncIterator[ControllerService]:
    service = await started(serve_grpc=request.param)
    yield service
    await service.stop()


@pytest.fixture
async def endpoints(controller: ControllerService) -> AsyncIterator[ControllerEndpoints]:
    made = endpoints_of(controller)
    yield made
    await made.close()


@pytest.fixture
def client(endpoints: ControllerEndpoints) -> ControllerClient:
    return ControllerClient(endpoints)


@pytest.fixture
async def watch(endpoints: ControllerEndpoints) -> AsyncIterator[ClusterWatch]:
    made = ClusterWatch(endpoints)
    made.start()
    await made.wait_for_revision(1, 5.0)
    yield made
    await made.stop()
