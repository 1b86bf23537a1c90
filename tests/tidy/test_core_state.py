"""The state of a partition's core is changed by its owner in `core/` alone: shells call methods and
hand over events, so that the simulation runs what the product runs.
"""

import ast
import re

from tests.tidy.sources import python_files, tree

PARTITION = "services/partition/highwater/partition/"
OWNER = re.compile(
    r"(?:^|\.)(?:core|isr|followers?(?:\[.+\])?|transactions|verifications|producer_?states)$"
)
"""How an object of the core is named where it is used."""


def written_from_outside(module: ast.Module) -> list[str]:
    """Assignments to attributes of such an object."""
    return [
        ast.unparse(node)
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and OWNER.search(ast.unparse(node.value))
    ]


def test_nothing_outside_writes_core_state() -> None:
    found = {
        path: written
        for path in python_files(prefix=PARTITION)
        if not path.startswith(f"{PARTITION}core/")
        and (written := written_from_outside(tree(path)))
    }
    assert found == {}


def test_writes_are_found() -> None:
    code = "follower.kept = 1\nself.core.isr.x += 1\nreplica.core.followers[n].near = a\ncore = 1"
    assert written_from_outside(ast.parse(code)) == [
        "follower.kept", "self.core.isr.x", "replica.core.followers[n].near",
    ]  # fmt: skip
