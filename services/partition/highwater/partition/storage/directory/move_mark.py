"""The mark of a log that is a whole copy of one in another log directory: `.highwater_moved`.

    {"version": 1, "token": "<32 hexadecimal digits>", "generation": 3}

It is written and synced when all other files of the copy are, before the copy may take the log's
place, and it stays with the log. `token` is that of the directories' names (`names`). `generation`
counts the moves of a log: of two logs of one partition the one with the higher number is the copy.
"""

import json
import os
from dataclasses import dataclass
from typing import Final

from highwater.partition.storage.filesystem import FileSystem, read_file, replace_file
from highwater.partition.storage.names import MOVE_MARK, TEMPORARY_SUFFIX

VERSION: Final = 1
FILE_BYTES_MAX: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMark:
    """The content of a mark."""

    token: str
    generation: int


NO_MARK: Final = MoveMark(token="", generation=0)
"""Of a log that was never moved."""


def read_mark(filesystem: FileSystem, directory: str) -> MoveMark:
    """The mark in a log's directory; `NO_MARK` if there is none, or one that a power cut has
    damaged: it was not synced, so the copy was not whole. Raises OSError.
    """
    try:
        text = read_file(filesystem, os.path.join(directory, MOVE_MARK), limit=FILE_BYTES_MAX)
        values = json.loads(text)
        if values["version"] != VERSION:
            return NO_MARK
        return MoveMark(token=str(values["token"]), generation=int(values["generation"]))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return NO_MARK


def write_mark(filesystem: FileSystem, directory: str, mark: MoveMark) -> None:
    """Writes the mark, durably. Raises OSError."""
    path = os.path.join(directory, MOVE_MARK)
    values = {"version": VERSION, "token": mark.token, "generation": mark.generation}
    replace_file(
        filesystem,
        path,
        json.dumps(values).encode(),
        temporary=path + TEMPORARY_SUFFIX,
        durable=True,
    )
