"""The namespace stays open, packages say what they are, and no module is a drawer for leftovers."""

import ast
from pathlib import Path

from tests.tidy.exemptions import assert_only_exempt
from tests.tidy.sources import files, python_files, service_modules, text, tree

AT_A_ROOT = {"__init__.py", "__main__.py", "config.py", "service.py"}
DRAWERS = {"utils", "util", "helpers", "helper", "common", "misc", "tools_lib"}


def test_no_init_directly_in_the_namespace():
    inits = [path for path in files() if path.endswith("highwater/__init__.py")]
    assert inits == [], "it would hide every other portion of the namespace package"


def test_no_module_is_a_drawer():
    drawers = [
        path for path in python_files() if DRAWERS.intersection(Path(path).with_suffix("").parts)
    ]
    assert drawers == [], "name modules for what they do"


def test_no_module_is_loose_at_a_services_root():
    roots = [Path(path).parts for path in python_files(prefix="services/")]
    services = [parts for parts in roots if parts[1] != "shared" and len(parts) == _ROOT_PARTS + 1]
    assert {parts[1] for parts in services} >= {"gateway", "partition", "embed"}
    loose = ["/".join(parts) for parts in services if parts[-1] not in AT_A_ROOT]
    assert loose == [], "put them into a folder that says what they are"


_ROOT_PARTS = len(("services", "<service>", "highwater", "<service>"))


def test_every_portion_is_typed():
    portions = {path.split("/highwater/")[0] + "/highwater/" + name.split(".")[1]
                for name, path in service_modules().items()}  # fmt: skip
    untyped = [portion for portion in portions if f"{portion}/py.typed" not in files()]
    assert untyped == []


def test_package_inits_hold_a_docstring_and_imports_only():
    wrong = []
    for path in service_modules().values():
        if not path.endswith("__init__.py"):
            continue
        body = tree(path).body
        if not ast.get_docstring(tree(path)):
            wrong.append(f"{path}: no docstring")
        wrong += [
            f"{path}:{node.lineno}" for node in body[1:] if not isinstance(node, _ALLOWED_IN_INIT)
        ]
    assert wrong == []


_ALLOWED_IN_INIT = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


def test_unit_tests_mirror_the_sources():
    assert_only_exempt("untested_modules", "write their unit tests")


def test_unit_tests_belong_to_a_module():
    assert_only_exempt("stray_tests", "name them for the module that they test")


def test_no_file_is_empty_but_markers():
    empty = [path for path in python_files() if not text(path).strip()]
    assert empty == []
