"""The file `.highwater_lineage` of a log directory: whose records it has without a gap.

    {"version": 1, "directory": "<id>", "directories": ["<id>", ...],
     "boot_id": "<the kernel's>", "incarnations": ["<hex>", ...], "clean": false,
     "place": "<device>:<inode of the directory>", "home": "<the same, see there>",
     "volume": {"superblock": "ext4:18263", "mount_namespace": "4", "mount": "2147483693",
                "errors": "0:0:0"}}

`highwater.partition.core.lineage` explains the fields.
"""

import json
from typing import Any, Final

from highwater.partition.core.lineage import DirectoryRecord, Lineage, Volume

LINEAGE_FILE: Final = ".highwater_lineage"
VERSION: Final = 1
_VOLUME: Final = ("superblock", "mount_namespace", "mount", "errors")
"""Fields that the next start compares with what it finds."""


def encode(record: DirectoryRecord) -> bytes:
    """The file's content."""
    values = {
        "version": VERSION,
        "directory": record.directory,
        "directories": record.directories,
        "boot_id": record.lineage.boot_id,
        "incarnations": record.lineage.incarnations,
        "clean": record.lineage.clean,
        "place": record.place,
        "home": record.home,
        "volume": {name: getattr(record.volume, name) for name in _VOLUME},
    }
    return json.dumps(values, separators=(",", ":")).encode()


def decode(content: bytes) -> DirectoryRecord | None:
    """The inverse of `encode`; None for any other content, which proves nothing."""
    try:
        values: Any = json.loads(content)
        if values["version"] != VERSION or not isinstance(values["clean"], bool):
            return None
        return DirectoryRecord(
            directory=_text(values["directory"]),
            directories=tuple(_text(value) for value in values["directories"]),
            lineage=Lineage(
                boot_id=_text(values["boot_id"]),
                incarnations=tuple(_text(value) for value in values["incarnations"]),
                clean=values["clean"],
            ),
            place=_text(values.get("place", "")),
            home=_text(values.get("home", "")),
            volume=_volume(values.get("volume", {})),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _volume(values: Any) -> Volume:
    """Unknown fields are empty, as in files of earlier versions."""
    return Volume(
        superblock=_text(values.get("superblock", "")),
        mount_namespace=_text(values.get("mount_namespace", "")),
        mount=_text(values.get("mount", "")),
        errors=_text(values.get("errors", "")),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
