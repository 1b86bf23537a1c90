"""Files have one job and functions fit a screen."""

import ast

from tests.tidy.exemptions import assert_only_exempt
from tests.tidy.measures import functions
from tests.tidy.sources import text

OVERVIEW_WORDS_MAX = 1500
"""Somebody new reads ARCHITECTURE.md at one sitting; what does not fit has a page of its own in docs/."""


def test_files_are_not_too_long():
    assert_only_exempt("long_files", "split these files")


def test_functions_fit_a_screen():
    assert_only_exempt("long_functions", "split these functions")


def test_the_overview_is_read_at_one_sitting():
    assert len(text("ARCHITECTURE.md").split()) <= OVERVIEW_WORDS_MAX, "move something to docs/"


def test_the_measure_counts_lines_of_nested_functions():
    source = "class A:\n    @d\n    def f(self):\n        def g():\n            pass\n        g()\n"
    assert dict(functions(ast.parse(source))) == {"A.f": 5, "A.f.g": 2}
