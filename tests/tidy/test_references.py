"""Every reference leads somewhere: to a file of the project, a decision, an invariant."""

import re
from pathlib import Path

from tests.tidy.sources import ROOT, files, is_generated, text

DECISION = re.compile(r"\b[Dd]ecisions? (\d+)\b")
INVARIANT = re.compile(r"\bR([1-9]\d?)\b")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
FILE = re.compile(r"(?<![\w./*<>{}$~-])([\w-]+(?:/[\w.-]+)*\.(?:py|md|proto|toml|sh))(?![\w/{*])")
"""A file's name in prose, with as many of its folders as the writer thought useful."""
QUOTED = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^# (\d+)\. (.+)\n\nStatus: (.+)\n", re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\((docs/decisions/.+\.md)\) \| (.+) \|$", re.MULTILINE)
PROSE = (".py", ".md")

FROM_ELSEWHERE = ("tests/tidy/", "CHANGELOG.md")
"""Speak of files as examples, or as they were at their time."""
KAFKAS = "clients/src/"
"""Where Apache Kafka's own files are that we refer to."""


def decisions() -> dict[int, str]:
    """Number -> path of every decision."""
    paths = [path for path in files() if path.startswith("docs/decisions/")]
    return {int(Path(path).name[:4]): path for path in paths}


def prose() -> list[str]:
    return [path for path in files() if path.endswith(PROSE) and not is_generated(path)]


def test_the_index_of_decisions_is_that_of_the_files():
    rows = {int(number): row for number, *row in ROW.findall(text("DECISIONS.md"))}
    assert set(rows) == set(decisions())
    for number, path in decisions().items():
        found = HEADING.match(text(path))
        assert found, f"{path} does not begin with its number, title and status"
        assert found.groups() == (str(number), rows[number][0], rows[number][2])
        assert rows[number][1] == path


def test_decisions_exist():
    known = decisions()
    wrong = [
        f"{path}: decision {number}"
        for path in prose()
        for number in DECISION.findall(text(path))
        if int(number) not in known
    ]
    assert wrong == []


def test_invariants_exist():
    known = set(re.findall(r"^## R(\d+) ", text("docs/invariants.md"), re.MULTILINE))
    wrong = [
        f"{path}: R{number}"
        for path in prose()
        for number in INVARIANT.findall(text(path))
        if number not in known
    ]
    assert wrong == []


def test_links_lead_to_files():
    wrong = [
        f"{path}: {target}"
        for path in prose()
        if path.endswith(".md")
        for target, _ in LINK.findall(text(path))
        if "://" not in target and not (ROOT / path).parent.joinpath(target).exists()
    ]
    assert wrong == []


def test_files_that_prose_names_exist():
    suffixes = {
        "/".join(parts[at:])
        for path in files()
        for parts in [path.split("/")]
        for at in range(len(parts))
    }
    wrong = [
        f"{path}: {name}"
        for path in prose()
        if not path.startswith(FROM_ELSEWHERE)
        for quoted in QUOTED.findall(text(path))
        for name in FILE.findall(quoted)
        if name not in suffixes and not name.startswith(KAFKAS)
    ]
    assert wrong == []
