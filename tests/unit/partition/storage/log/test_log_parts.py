"""The parts of a log do not use each other's private fields."""

import ast
from pathlib import Path

import pytest

import highwater.partition.storage.log.log as whole
from tests.support.log_batches import open_log

NAMED_TUPLE = ("_make", "_replace")
MODULES = sorted(Path(whole.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=[path.stem for path in MODULES])
def test_no_part_uses_private_fields_of_another(path: Path) -> None:
    reached = [
        f"{path.name}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in NAMED_TUPLE
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]
    assert reached == []


def test_no_part_inherits_from_another(tmp_path: Path) -> None:
    log = open_log(tmp_path / "topic-0")
    package = whole.__name__.rpartition(".")[0]
    parts = [
        part
        for name in type(log).__slots__
        if type(part := getattr(log, name)).__module__.startswith(package)
    ]
    assert len(parts) > 12
    for part in (log, *parts):
        assert type(part).__mro__[1:] == (object,), type(part)
