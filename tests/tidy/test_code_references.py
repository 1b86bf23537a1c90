"""The walks through the code name functions that exist, in the files that they name."""

import ast
import re

import pytest

from tests.tidy.sources import python_files, text, tree

WALKS = ("docs/walks.md", "docs/copies.md", "ARCHITECTURE.md")
QUOTED = re.compile(r"`([^`]+)`")
REFERENCE = re.compile(r"((?:[\w-]+/)*[\w-]+\.py):\s+(\w+(?:\.\w+)*)")
"""`file.py: name`, `folder/file.py: Class.function`; prose may break the line after the colon."""


def named(nodes: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What these statements define: functions, classes, constants and fields."""
    found: dict[str, ast.stmt] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {one.id: node for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
    return found


def defines(module: ast.Module, name: str) -> bool:
    body = module.body
    for part in name.split("."):
        node = named(body).get(part)
        if node is None:
            return False
        body = node.body if isinstance(node, ast.ClassDef) else []
    return True


def unresolved(prose: str) -> list[str]:
    """The references in backticks for which no file of that name defines that."""
    paths = python_files()
    return [
        f"{file}: {name}"
        for quoted in QUOTED.findall(prose)
        for file, name in REFERENCE.findall(quoted)
        if not any(
            defines(tree(path), name) for path in paths if path == file or path.endswith(f"/{file}")
        )
    ]


@pytest.mark.parametrize("path", WALKS)
def test_what_walks_name_is_defined_there(path: str):
    assert unresolved(text(path)) == []


def test_what_is_not_defined_is_found():
    prose = "`hop/append.py: AppendGroup.complete`, `hop/append.py: AppendGroup.gone`, `gone.py: x`"
    assert unresolved(prose) == ["hop/append.py: AppendGroup.gone", "gone.py: x"]
    assert unresolved("`wait.py: Waiters`, `x.py`, `{a}.py: b`") == ["wait.py: Waiters"]


def test_there_is_something_to_check():
    assert len(REFERENCE.findall(text("docs/walks.md"))) > 100
