"""What the tidy tests look at: the project's own files, parsed once."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

GENERATED = (
    "protos/gen/",
    "services/shared/highwater/kafka/messages/",
    "services/shared/highwater/kafka/message_index.py",
)
"""Written by `make proto` and the codec generator; checked by regenerating, not by reading."""

NOT_OURS = frozenset({"__pycache__", "node_modules", "target", "build", "dist"})


def is_generated(path: str) -> bool:
    return path.startswith(GENERATED)


@cache
def files() -> tuple[str, ...]:
    """Relative paths of every file of the project, sorted."""
    return tuple(sorted(str(path.relative_to(ROOT)) for path in _walk(ROOT)))


def python_files(*, prefix: str = "", generated: bool = False) -> list[str]:
    return [
        path
        for path in files()
        if path.endswith(".py")
        and path.startswith(prefix)
        and (generated or not is_generated(path))
    ]


@cache
def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@cache
def tree(path: str) -> ast.Module:
    return ast.parse(text(path), filename=path)


def service_modules() -> dict[str, str]:
    """Dotted name -> path of every hand-written module of the `highwater` namespace."""
    modules = {}
    for path in python_files(prefix="services/") + python_files(prefix="spark/"):
        parts = Path(path).with_suffix("").parts
        modules[".".join(parts[parts.index("highwater") :])] = path
    return modules


def _walk(directory: Path) -> Iterator[Path]:
    for entry in directory.iterdir():
        if entry.name in NOT_OURS or (entry.name.startswith(".") and entry.name != ".ci"):
            continue
        if entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _walk(entry)
        else:
            yield entry
