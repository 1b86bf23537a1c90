"""Nothing in the repository depends on, or speaks of, the machine that it was written on."""

import json
import re

from tests.tidy.sources import ROOT, files

TEXT_BYTES_MAX = 4 << 20

# Put together here, so that this file does not contain what it looks for.
MACHINE = re.compile(
    "|".join(
        [
            r"(?<![\w./-])/" + r"work/",
            r"\.\./" + r"shared\b",
            r"(?<![\w./-])/" + r"root\b",
            r"(?<![\w./-])/" + r"home/\w",
        ]
    )
)

LOCK_FILES = ("package-lock.json", "npm-shrinkwrap.json")


def test_no_path_of_one_machine():
    found = []
    for path in files():
        full = ROOT / path
        if full.stat().st_size > TEXT_BYTES_MAX:
            continue
        content = full.read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), start=1):
            if MACHINE.search(line):
                found.append(f"{path}:{number}: {line.strip()[:100]}")
    assert found == []


def test_npm_locks_name_no_registry():
    found = []
    for path in files():
        if not path.endswith(LOCK_FILES):
            continue
        packages = json.loads((ROOT / path).read_text(encoding="utf-8")).get("packages", {})
        found += [f"{path}: {name}" for name, package in packages.items() if "resolved" in package]
    assert found == [], "npm install --omit-lockfile-registry-resolved"


def test_the_rule_sees_what_it_forbids():
    assert MACHINE.search("cat /" + "work/x")
    assert MACHINE.search("see ../" + "shared/y")
    assert not MACHINE.search("the tests/" + "work/x directory")
