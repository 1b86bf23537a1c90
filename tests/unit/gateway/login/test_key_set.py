import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from highwater.gateway.login import key_set
from highwater.gateway.login.key_set import AGAIN_S_MIN, KeySet, read_url
from highwater.gateway.login.scram_server import LoginRefused
from tests.support.tokens import Issuer

REFRESH_S = 100.0
OLD, NEW = Issuer("old", kind="EC"), Issuer("new", kind="EC")


class Log:
    def __init__(self):
        self.lines = []

    def warning(self, event, **values):
        self.lines.append((event, values))


class Source:
    """What is at the URL; the test is the clock."""

    def __init__(self, executor):
        self.answers = [OLD.document()]
        self.reads = 0
        self.now_s = 0.0
        self.log = Log()
        self.keys = KeySet(
            "https://issuer/keys",
            refresh_s=REFRESH_S,
            reading=executor,
            now_s=lambda: self.now_s,
            log=self.log,
            read=self.read,
        )

    def read(self, url):
        assert url == "https://issuer/keys"
        self.reads += 1
        answer = self.answers[-1]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def source():
    with ThreadPoolExecutor(1) as executor:
        yield Source(executor)


async def test_many_logins_share_one_reading(source):
    found = await asyncio.gather(*(source.keys.find("old") for _ in range(10)))
    assert len({id(one) for one in found}) == 1
    assert source.reads == 1


async def test_a_token_without_an_id_means_the_only_key(source):
    assert await source.keys.find("") is await source.keys.find("old")
    source.answers.append(OLD.document(NEW))
    source.now_s = REFRESH_S
    with pytest.raises(LoginRefused, match="not in the issuer's set"):
        await source.keys.find("")


async def test_a_new_key_is_read_at_once_but_not_at_every_guess(source):
    await source.keys.find("old")
    source.answers.append(NEW.document())
    with pytest.raises(LoginRefused):
        await source.keys.find("new")
    assert source.reads == 1
    source.now_s = AGAIN_S_MIN
    assert await source.keys.find("new")
    with pytest.raises(LoginRefused):  # It is not in the newest set.
        await source.keys.find("old")
    assert source.reads == 2


async def test_an_old_set_is_read_again(source):
    await source.keys.find("old")
    source.now_s = REFRESH_S - 0.1
    await source.keys.find("old")
    assert source.reads == 1
    source.now_s = REFRESH_S
    await source.keys.find("old")
    assert source.reads == 2


@pytest.mark.parametrize("answer", [OSError("refused"), b"<html>", b"[]", b'{"error": 1}'])
async def test_what_cannot_be_read_leaves_the_former_set(source, answer):
    await source.keys.find("old")
    source.answers.append(answer)
    source.now_s = REFRESH_S
    assert await source.keys.find("old")
    await source.keys.find("old")
    assert source.reads == 2
    ((event, values),) = source.log.lines
    assert event == "oauth_keys_not_read"
    assert values["url"] == "https://issuer/keys"


async def test_a_login_that_ends_early_does_not_end_the_reading(source):
    first = asyncio.create_task(source.keys.find("old"))
    await asyncio.sleep(0)
    second = asyncio.create_task(source.keys.find("old"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second
    assert source.reads == 1


def test_files_and_their_limit(tmp_path, monkeypatch):
    path = tmp_path / "keys.json"
    path.write_bytes(OLD.document())
    assert json.loads(read_url(path.as_uri()))["keys"]
    monkeypatch.setattr(key_set, "SET_BYTES_MAX", 10)
    with pytest.raises(OSError, match="more than 10 bytes"):
        read_url(path.as_uri())
    with pytest.raises(OSError, match="No such file"):
        read_url((tmp_path / "none.json").as_uri())
