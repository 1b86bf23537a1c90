"""The lineage file survives encoding; any other content proves nothing."""

import json
from dataclasses import replace

import pytest

from highwater.partition.core.lineage import (
    UNKNOWN_VOLUME,
    DirectoryRecord,
    Lineage,
    Volume,
)
from highwater.partition.storage.directory.lineage_file import decode, encode

RECORD = DirectoryRecord(
    directory="x",
    directories=("x", "y"),
    lineage=Lineage(boot_id="boot", incarnations=("a", "b"), clean=True),
    place="8:17",
    home="8:17",
    volume=Volume(superblock="ext4:18263", mount_namespace="4", mount="77", errors="0:0:0"),
)


def test_encode_and_decode() -> None:
    assert decode(encode(RECORD)) == RECORD


def test_the_file_is_as_documented() -> None:
    assert json.loads(encode(RECORD)) == {
        "version": 1,
        "directory": "x",
        "directories": ["x", "y"],
        "boot_id": "boot",
        "incarnations": ["a", "b"],
        "clean": True,
        "place": "8:17",
        "home": "8:17",
        "volume": {
            "superblock": "ext4:18263",
            "mount_namespace": "4",
            "mount": "77",
            "errors": "0:0:0",
        },
    }


def test_a_file_of_a_version_without_place() -> None:
    values = json.loads(encode(RECORD))
    del values["place"], values["home"], values["volume"]
    assert decode(json.dumps(values).encode()) == replace(
        RECORD, place="", home="", volume=UNKNOWN_VOLUME
    )


@pytest.mark.parametrize("length", range(len(encode(RECORD))))
def test_a_torn_file(length: int) -> None:
    assert decode(encode(RECORD)[:length]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"clean": "yes"},
        {"directory": 1},
        {"directories": [1]},
        {"incarnations": None},
        {"boot_id": None},
        {"volume": "ext4"},
        {"volume": {"mount": 7}},
    ],
)
def test_foreign_content(change: dict[str, object]) -> None:
    assert decode(json.dumps(json.loads(encode(RECORD)) | change).encode()) is None


def test_content_that_is_no_json_object() -> None:
    assert decode(b"[]") is None
    assert decode(b"\xff") is None
