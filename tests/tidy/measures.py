"""The rules that have exemptions: each measure returns the names of what breaks its rule."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import python_files, service_modules, text, tree

FILE_LINES_MAX = 500
TEST_FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

NEVER_TESTED_ALONE = {"__init__", "__main__"}

TASK_MODULE = "services/shared/highwater/runtime/tasks.py"


def long_files() -> set[str]:
    """Paths of files with more lines than one job needs."""
    return {
        path
        for path in python_files()
        if text(path).count("\n")
        > (TEST_FILE_LINES_MAX if path.startswith("tests/") else FILE_LINES_MAX)
    }


def functions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, int]]:
    """Dotted name and number of lines, decorators included, of each function below `node`."""
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{outer}.{child.name}" if outer else child.name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(item.lineno for item in child.decorator_list)])
            yield name, (child.end_lineno or first) - first + 1
        yield from functions(child, name)


def long_functions() -> set[str]:
    """path::name of functions that do not fit a screen."""
    return {
        f"{path}::{name}"
        for path in python_files()
        for name, lines in functions(tree(path))
        if lines > FUNCTION_LINES_MAX
    }


def untested_modules() -> set[str]:
    """Modules without a tests/unit/<package>/test_<module>.py or test_<module>_<aspect>.py."""
    tests = {path for path in python_files(prefix="tests/unit/") if "/test_" in path}
    untested = set()
    for module in service_modules():
        *package, name = module.split(".")[1:]
        if name in NEVER_TESTED_ALONE:
            continue
        stem = "/".join(["tests/unit", *package, f"test_{name}"])
        if not any(test == f"{stem}.py" or test.startswith(f"{stem}_") for test in tests):
            untested.add(module)
    return untested


def stray_tests() -> set[str]:
    """Paths of unit tests that are not named for a module."""
    modules = service_modules()
    strays = set()
    for path in python_files(prefix="tests/unit/"):
        *package, file = Path(path).with_suffix("").parts[2:]
        if not file.startswith("test_"):
            continue
        stem = file.removeprefix("test_")
        siblings = {
            module.rpartition(".")[2]
            for module in modules
            if module.rpartition(".")[0] == ".".join(["highwater", *package])
        }
        if not any(stem == name or stem.startswith(f"{name}_") for name in siblings):
            strays.add(path)
    return strays


def task_groups(module: ast.Module) -> set[str]:
    """Names that are bound to a TaskGroup by `async with`."""
    names = set()
    for node in ast.walk(module):
        if not isinstance(node, ast.AsyncWith):
            continue
        for item in node.items:
            if "TaskGroup" in ast.dump(item.context_expr) and item.optional_vars is not None:
                names.add(ast.unparse(item.optional_vars))
    return names


def bare_task_lines(module: ast.Module) -> list[int]:
    """Lines that create a task which nobody is sure to keep."""
    groups = task_groups(module)
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"create_task", "ensure_future"}
        and ast.unparse(node.func.value) not in groups
    ]


def bare_tasks() -> set[str]:
    """Paths of files that create tasks without a TaskGroup or TaskOwner."""
    return {
        path
        for prefix in ("services/", "spark/", "tools/")
        for path in python_files(prefix=prefix)
        if path != TASK_MODULE and bare_task_lines(tree(path))
    }


MEASURES = {
    "long_files": long_files,
    "long_functions": long_functions,
    "untested_modules": untested_modules,
    "stray_tests": stray_tests,
    "bare_tasks": bare_tasks,
}
