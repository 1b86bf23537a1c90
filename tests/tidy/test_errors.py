"""Every class of error is one that something raises."""

import ast
import re
from collections import Counter

from tests.tidy.sources import python_files, service_modules, text, tree

ENDINGS = ("Error", "Exception", "Failure", "Failed", "OutOfRange")
"""How the names of our errors, and of those they inherit from, end."""


def errors() -> list[tuple[str, str, list[str]]]:
    """(module, name, names of the bases) of every class of error in the services."""
    return [
        (module, node.name, [ast.unparse(base).rpartition(".")[2] for base in node.bases])
        for module, path in service_modules().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(ENDINGS) for base in node.bases)
    ]


def test_no_error_is_only_caught():
    made = Counter(
        after_raise or called
        for path in python_files(prefix="services/") + python_files(prefix="spark/")
        for after_raise, called in re.findall(r"raise (\w+)|\b(\w+)\(", text(path))
    )
    found = errors()
    bases = {base for _, _, parents in found for base in parents}
    unused = [
        f"{module}: {name}"
        for module, name, _ in found
        if name not in bases and made[name] < 2  # Once in its own definition.
    ]
    assert unused == []


def test_no_two_errors_have_one_name():
    names = sorted(name for _, name, _ in errors())
    assert names == sorted(set(names))
