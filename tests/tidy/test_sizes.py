"""Files have one job and functions fit a screen."""

import ast
from collections.abc import Iterator

from tests.tidy.exemptions import LONG_FILES, LONG_FUNCTIONS
from tests.tidy.sources import python_files, text, tree

FILE_LINES_MAX = 500
TEST_FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70


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


def test_files_are_not_too_long():
    long = {
        path
        for path in python_files()
        if text(path).count("\n")
        > (TEST_FILE_LINES_MAX if path.startswith("tests/") else FILE_LINES_MAX)
    }
    assert sorted(long - LONG_FILES) == [], "split these files"
    assert sorted(LONG_FILES - long) == [], "short by now: remove from LONG_FILES"


def test_functions_fit_a_screen():
    long = {
        f"{path}::{name}"
        for path in python_files()
        for name, lines in functions(tree(path))
        if lines > FUNCTION_LINES_MAX
    }
    assert sorted(long - LONG_FUNCTIONS) == [], "split these functions"
    assert sorted(LONG_FUNCTIONS - long) == [], "short by now: remove from LONG_FUNCTIONS"


def test_the_measure_counts_lines_of_nested_functions():
    source = "class A:\n    @d\n    def f(self):\n        def g():\n            pass\n        g()\n"
    assert dict(functions(ast.parse(source))) == {"A.f": 5, "A.f.g": 2}
