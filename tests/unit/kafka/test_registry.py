"""Codecs are found by key, complete, and loaded only when asked for."""

import subprocess
import sys

import pytest

from highwater.kafka.api_keys import NEVER_FLEXIBLE, ApiKey, first_flexible_version
from highwater.kafka.errors import UnknownApiKeyError
from highwater.kafka.message_index import API_MODULES
from highwater.kafka.messages import request_codec

WITH_RECORDS = {ApiKey.FETCH, ApiKey.SHARE_FETCH}


@pytest.mark.parametrize("api_key", sorted(API_MODULES))
def test_every_codec_is_complete_and_agrees_with_the_key(api_key: int) -> None:
    codec = request_codec(api_key)
    assert codec.api_key == api_key
    assert codec.name == ApiKey(api_key).name.lower()
    assert 0 <= codec.min_version <= codec.max_version
    assert codec.flexible_from == first_flexible_version(api_key)
    assert (codec.encode_response_parts is not None) == (api_key in WITH_RECORDS)
    assert request_codec(api_key) is codec


def test_sasl_handshake_is_never_flexible() -> None:
    assert request_codec(ApiKey.SASL_HANDSHAKE).flexible_from == NEVER_FLEXIBLE


@pytest.mark.parametrize("api_key", [-1, 4, 999])
def test_keys_without_a_codec(api_key: int) -> None:
    with pytest.raises(UnknownApiKeyError):
        request_codec(api_key)


def test_importing_the_registry_loads_no_message_module() -> None:
    script = (
        "import sys\n"
        "from highwater.kafka.messages import request_codec\n"
        "def loaded(): return {m for m in sys.modules if m.startswith('highwater.kafka.messages.')}\n"
        "assert loaded() == set(), loaded()\n"
        "request_codec(18)\n"
        "assert loaded() == {'highwater.kafka.messages.api_versions'}, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)
