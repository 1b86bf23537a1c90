"""What the project's files say in words: documents as a whole, of code its comments and docstrings."""

import re
from functools import cache
from pathlib import Path

from tests.tidy.sources import files, is_generated, text

_C_COMMENTS = re.compile(
    r"/\*.*?\*/|(?:^[ \t]*//[^\n]*\n)+|(?<!:)//[^\n]*", re.DOTALL | re.MULTILINE
)
_HASH_COMMENTS = re.compile(r"(?:^[ \t]*#[^\n]*\n)+|[ \t]#[^\n]*", re.MULTILINE)
"""Lines of comments that follow one another are one comment."""
_DOCSTRINGS = re.compile(r'"{3}.*?"{3}', re.DOTALL)
"""Parsing every file would take ten times as long."""
_MARKS = re.compile(r"^[ \t]*(?:/?\*+/?|//+|#+)", re.MULTILINE)
_COMMENTS = {
    ".c": _C_COMMENTS,
    ".go": _C_COMMENTS,
    ".h": _C_COMMENTS,
    ".mjs": _C_COMMENTS,
    ".proto": _C_COMMENTS,
    ".py": _HASH_COMMENTS,
    ".pyi": _HASH_COMMENTS,
    ".sh": _HASH_COMMENTS,
    ".toml": _HASH_COMMENTS,
    ".yaml": _HASH_COMMENTS,
    "Dockerfile": _HASH_COMMENTS,
    "Makefile": _HASH_COMMENTS,
}
"""By the end of a file's name, what its comments look like."""


def files_with_prose() -> list[str]:
    """Paths of all hand-written documents and sources."""
    return [path for path in files() if _kind(path) and not is_generated(path)]


@cache
def prose(path: str) -> str:
    """The words of a file: paragraphs with a blank line between them."""
    kind = _kind(path)
    if kind == ".md":
        return text(path)
    found = [_MARKS.sub("", comment) for comment in _COMMENTS[kind].findall(text(path))]
    if kind == ".py":
        found += _DOCSTRINGS.findall(text(path))
    return "\n\n".join(found)


def _kind(path: str) -> str:
    """The end of a name that says how the file is read; empty if it has no prose."""
    name = Path(path)
    kind = name.suffix or name.name
    return kind if kind == ".md" or kind in _COMMENTS else ""
