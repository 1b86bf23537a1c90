import asyncio

import pytest

from highwater.controller.config import ControllerConfig
from highwater.controller.service import ControllerService
from highwater.embed.clients.controller_session import ControllerAt, converse, read_image
from highwater.model.errors import ConfigError, UnreachableError, UsageError
from tests.support.certificates import make_authority


def test_the_result_of_work_is_returned():
    async def work(endpoints):
        return endpoints.addresses

    assert list(converse("127.0.0.1:1", work)) == ["127.0.0.1:1"]


def test_an_invalid_address_is_refused():
    async def work(_endpoints):
        raise AssertionError("nobody is called")

    with pytest.raises(UsageError, match="HOST:PORT"):
        converse("somewhere", work)


def test_no_server_answers(unused_port):
    with pytest.raises(UnreachableError, match="no answer from the controller"):
        converse(f"127.0.0.1:{unused_port}", lambda endpoints: read_image(endpoints, 0.3))


SECRET = "s" * 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("files")
    authority = make_authority(directory / "authority")
    cert, key = authority.issue("cluster")
    (directory / "secret").write_text(SECRET)
    return {
        "secret_file": str(directory / "secret"),
        "ca_file": str(authority.certificate),
        "cert_file": str(cert),
        "key_file": str(key),
    }


@pytest.fixture
async def controller(files, request):
    """One that asks for some of the files."""
    inner = {name: path for name, path in files.items() if name.split("_")[0] in request.param}
    config = ControllerConfig(port=0, store="memory", inner=inner)
    service = ControllerService(config)
    await service.start()
    await service.wait_active(10)
    yield service
    await service.stop()


def revision_at(address, files=None):
    async def work(endpoints):
        return (await read_image(endpoints, 5)).revision

    return converse(ControllerAt(address, files) if files is not None else address, work)


def only(files, *kinds):
    return {name: path for name, path in files.items() if name.split("_")[0] in kinds}


TLS = ("ca", "cert", "key")


@pytest.mark.parametrize("controller", [("secret",)], indirect=True)
async def test_a_controller_that_asks_for_the_secret(controller, files, tmp_path):
    assert await asyncio.to_thread(revision_at, controller.address, only(files, "secret"))
    with pytest.raises(UsageError, match="does not show the cluster's secret; --secret-file"):
        await asyncio.to_thread(revision_at, controller.address)
    other = tmp_path / "other"
    other.write_text("o" * 20)
    with pytest.raises(UsageError, match="another secret than the cluster's") as caught:
        await asyncio.to_thread(revision_at, controller.address, {"secret_file": str(other)})
    assert SECRET not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot read the secret file"):
        await asyncio.to_thread(revision_at, controller.address, {"secret_file": "/none"})


@pytest.mark.parametrize("controller", [("secret", *TLS)], indirect=True)
async def test_a_controller_that_asks_for_both(controller, files):
    assert await asyncio.to_thread(revision_at, controller.address, files)
    with pytest.raises(UsageError, match="does not show the cluster's secret"):
        await asyncio.to_thread(revision_at, controller.address, only(files, *TLS))
    with pytest.raises(UsageError, match=r"does not take connections without any.*--tls"):
        await asyncio.to_thread(revision_at, controller.address, only(files, "secret"))


@pytest.mark.parametrize("controller", [()], indirect=True)
async def test_certificates_for_a_controller_without(controller, files):
    assert await asyncio.to_thread(revision_at, controller.address)
    with pytest.raises(UsageError, match="does not take these certificates, or needs none"):
        await asyncio.to_thread(revision_at, controller.address, only(files, *TLS))
