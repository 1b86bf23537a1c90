"""Calls that no linter rule covers: bare tasks, and remote calls without a deadline."""

import ast
import re
from functools import cache

from tests.tidy.exemptions import assert_only_exempt
from tests.tidy.measures import bare_task_lines
from tests.tidy.sources import ROOT, python_files, tree


@cache
def unary_methods() -> frozenset[str]:
    """Names of our RPCs that are unary on both sides; streams carry a deadline per message."""
    rpc = re.compile(r"rpc (\w+)\((stream )?\S+\) returns \((stream )?")
    methods: dict[str, bool] = {}
    for proto in (ROOT / "protos" / "highwater").rglob("*.proto"):
        for name, up, down in rpc.findall(proto.read_text(encoding="utf-8")):
            methods[name] = methods.get(name, True) and not up and not down
    return frozenset(name for name, unary in methods.items() if unary)


def calls_without_deadline(module: ast.Module) -> list[int]:
    """Lines that call a unary method of something called a stub without `timeout=`."""
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in unary_methods()
        and "stub" in ast.unparse(node.func.value).lower()
        and len(node.args) < 2  # The timeout is the second positional argument.
        and not any(keyword.arg in {"timeout", None} for keyword in node.keywords)
    ]


def test_no_bare_tasks():
    assert_only_exempt("bare_tasks", "use a TaskGroup or highwater.runtime.tasks.TaskOwner")


def test_every_unary_call_has_a_deadline():
    found = [
        f"{path}:{line}" for path in python_files() for line in calls_without_deadline(tree(path))
    ]
    assert found == [], "pass timeout="


def test_the_rules_see_what_they_forbid():
    assert "CreateTopics" in unary_methods()
    assert "Append" not in unary_methods()
    bad = ast.parse(
        "async def f(loop, stub):\n"
        "    loop.create_task(g())\n"
        "    await self._stub.CreateTopics(request)\n"
    )
    assert bare_task_lines(bad) == [2]
    assert calls_without_deadline(bad) == [3]
    good = ast.parse(
        "async def f(stub):\n"
        "    async with asyncio.TaskGroup() as group:\n"
        "        group.create_task(g())\n"
        "    await stub.CreateTopics(request, timeout=1)\n"
        "    stub.Append(stream)\n"
    )
    assert bare_task_lines(good) == []
    assert calls_without_deadline(good) == []
