"""Reading of schemas: versions, names, structs, and what is refused."""

from pathlib import Path

import pytest

from tools.codegen.names import snake_case
from tools.codegen.schema import SchemaError, load_message
from tools.codegen.versions import VersionRange

SCHEMA = """
// A comment line.
{
  "apiKey": 7, "type": "request", "name": "ThingRequest",
  "validVersions": "1-3", "flexibleVersions": "2+",
  // another
  "fields": [
    { "name": "OuterThing", "type": "[]Outer", "versions": "1+", "fields": [
      { "name": "Inner", "type": "Inner", "versions": "2+", "nullableVersions": "2+",
        "default": "null" }
    ]},
    { "name": "Url", "type": "string", "versions": "0+", "default": "http://x",
      "tag": 3, "taggedVersions": "2+" }
  ],
  "commonStructs": [
    { "name": "Inner", "versions": "0+", "fields": [
      { "name": "N", "type": "int32", "versions": "0+", "default": "-1" }
    ]}
  ]
}
"""


def load(tmp_path: Path, text: str):
    path = tmp_path / "schema.json"
    path.write_text(text, encoding="utf-8")
    return load_message(path)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("3", [3], [2, 4]), ("1-3", [1, 2, 3], [0, 4]), ("2+", [2, 99], [1]), ("none", [], [0, 1])],
)
def test_version_ranges(text: str, inside: list[int], outside: list[int]) -> None:
    parsed = VersionRange.parse(text)
    assert all(version in parsed for version in inside)
    assert not any(version in parsed for version in outside)
    assert str(parsed) == text


@pytest.mark.parametrize(
    ("camel", "snake"),
    [
        ("TimeoutMs", "timeout_ms"),
        ("Acks", "acks"),
        ("IsrNodes", "isr_nodes"),
        ("HWMark", "hw_mark"),
        ("From", "from_"),
        ("OffsetForLeaderEpoch", "offset_for_leader_epoch"),
    ],
)
def test_snake_case(camel: str, snake: str) -> None:
    assert snake_case(camel) == snake


def test_a_schema_is_read_with_inner_structs_first(tmp_path: Path) -> None:
    message = load(tmp_path, SCHEMA)
    assert list(message.structs) == ["Inner", "Outer", "ThingRequest"]
    outer, url = message.fields
    assert (outer.kind, outer.is_array, outer.is_struct) == ("Outer", True, True)
    assert (url.default, url.tag, str(url.tagged)) == ("http://x", 3, "2+")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"type": "int32"', '"type": "int128"'),
        ('"type": "Inner"', '"type": "Missing"'),
        ('"name": "Inner", "versions": "0+"', '"name": "Outer", "versions": "0+"'),
        ('"tag": 3, ', ""),
        ('"type": "string", "versions": "0+", "default": "http://x"',
         '"type": "records", "versions": "0+"'),
        ('"default": "null" }', '"default": "null", "tag": 0, "taggedVersions": "2+" }'),
    ],
)  # fmt: skip
def test_what_the_generator_does_not_know_is_refused(tmp_path: Path, old: str, new: str) -> None:
    assert old in SCHEMA
    with pytest.raises(SchemaError):
        load(tmp_path, SCHEMA.replace(old, new))
