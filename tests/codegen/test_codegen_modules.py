"""The generated source of a small schema: what it looks like and that it works."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.kafka.errors import DecodeError, EncodeError
from tools.codegen.__main__ import differences, generate, main, write
from tools.codegen.layout import element_size_min, message_layout
from tools.codegen.modules import pair_apis
from tools.codegen.schema import SchemaError, load_message

REQUEST = """{
  "apiKey": 900, "type": "request", "name": "PingRequest",
  "validVersions": "0-3", "flexibleVersions": "2+",
  "fields": [
    { "name": "A", "type": "int32", "versions": "0+" },
    { "name": "B", "type": "int16", "versions": "0+", "default": "7" },
    { "name": "Name", "type": "string", "versions": "0+", "nullableVersions": "1+" },
    { "name": "New", "type": "int64", "versions": "3+", "ignorable": true },
    { "name": "Strict", "type": "bool", "versions": "1+" },
    { "name": "Items", "type": "[]Item", "versions": "0+", "fields": [
      { "name": "Id", "type": "uuid", "versions": "0+" },
      { "name": "Parts", "type": "[]int32", "versions": "0+" }
    ]},
    { "name": "Note", "type": "string", "versions": "2+", "tag": 0, "taggedVersions": "2+" }
  ]
}"""

RESPONSE = """{
  "apiKey": 900, "type": "response", "name": "PingResponse",
  "validVersions": "0-3", "flexibleVersions": "2+",
  "fields": [ { "name": "Code", "type": "int16", "versions": "0+" } ]
}"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "PingRequest.json").write_text(REQUEST, encoding="utf-8")
    (tmp_path / "schemas" / "PingResponse.json").write_text(RESPONSE, encoding="utf-8")
    return tmp_path


@pytest.fixture
def ping(package: Path) -> SimpleNamespace:
    namespace: dict = {}
    exec(generate(package / "schemas")["messages/ping.py"], namespace)
    return SimpleNamespace(**namespace)


def test_versions_with_equal_layouts_share_their_functions(package: Path) -> None:
    source = generate(package / "schemas")["messages/ping.py"]
    assert source.count("def _decode_request_") == 4
    assert source.count("def _decode_response_") == 2
    assert "    1: _decode_response_0," in source


def test_adjacent_fields_and_the_next_length_are_read_at_once(package: Path) -> None:
    source = generate(package / "schemas")["messages/ping.py"]
    assert "a, b, name_n = _U_ihh(buf, pos)" in source
    assert "a, b, name_n = _U_ihB(buf, pos)" in source


def test_known_bytes(ping: SimpleNamespace) -> None:
    item = ping.PingRequestItem(id=bytes(range(16)), parts=[1, -1])
    message = ping.PingRequest(a=1, name="hi", items=[item], note="n")
    data = ping.encode_request(message, 2)
    assert data == (
        bytes.fromhex("00000001 0007 03 6869 00 02")
        + bytes(range(16))
        + bytes.fromhex("03 00000001 ffffffff 00")
        + bytes.fromhex("01 00 02 02 6e")
    )
    assert ping.decode_request(data, 0, 2) == message
    message.note = ""
    assert ping.encode_request(message, 2).endswith(b"\xff\x00\x00")


def test_null_is_only_for_versions_that_allow_it(ping: SimpleNamespace) -> None:
    message = ping.PingRequest(name=None)
    assert ping.decode_request(ping.encode_request(message, 1), 0, 1).name is None
    with pytest.raises(EncodeError):
        ping.encode_request(message, 0)
    with pytest.raises(DecodeError):
        ping.decode_request(bytes(6) + b"\xff\xff" + bytes(4), 0, 0)


def test_absent_fields_are_refused_unless_ignorable(ping: SimpleNamespace) -> None:
    assert ping.encode_request(ping.PingRequest(new=5), 2)
    with pytest.raises(EncodeError, match="strict"):
        ping.encode_request(ping.PingRequest(strict=True), 0)


def test_a_known_tag_with_the_wrong_size_is_refused(ping: SimpleNamespace) -> None:
    data = ping.encode_request(ping.PingRequest(note="n"), 2)
    assert ping.decode_request(data, 0, 2).note == "n"
    assert data.endswith(b"\x01\x00\x02\x02n")
    with pytest.raises(DecodeError):
        ping.decode_request(data[:-3] + b"\x03\x02nx", 0, 2)
    with pytest.raises(DecodeError):
        ping.decode_request(data[:-3] + b"\x01\x02n", 0, 2)


def test_the_smallest_element_bounds_a_count(package: Path) -> None:
    message = load_message(package / "schemas" / "PingRequest.json")
    sizes = [
        next(
            element_size_min(field, version in message.flexible)
            for field in message_layout(message, version).plain
            if field.name == "items"
        )
        for version in (0, 2)
    ]
    assert sizes == [16 + 4, 16 + 1 + 1]


def test_write_then_check_then_edit(package: Path) -> None:
    assert differences(package) == ["messages/ping.py", "message_index.py"]
    assert write(package) == 2
    assert differences(package) == []
    (package / "messages" / "stray.py").write_text("x = 1\n", encoding="utf-8")
    (package / "message_index.py").write_text("edited\n", encoding="utf-8")
    assert differences(package) == ["message_index.py", "messages/stray.py"]


def test_requests_and_responses_must_match(package: Path) -> None:
    request = load_message(package / "schemas" / "PingRequest.json")
    with pytest.raises(SchemaError):
        pair_apis([request])


def test_check_of_the_checked_in_modules_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == ""
