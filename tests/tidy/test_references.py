"""Every reference leads somewhere: to a file of the project, a decision, an invariant."""

import re
from pathlib import Path

import pytest

from tests.tidy.prose import files_with_prose, prose
from tests.tidy.sources import ROOT, files, text

DECISIONS = re.compile(r"\b[Dd]ecisions?\s+(\d+(?:(?:,|,?\s+(?:and|or|to))\s+\d+(?![\d-]))*)\b")
"""`decision 9`, `decisions 99, 109 and 110`."""
INVARIANT = re.compile(r"\bR([1-9]\d?)\b")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
FILE = re.compile(
    r"(?<![\w./*<>{}$~@-])"
    r"((?:\.?[\w-]+/)*(?:[\w.-]+\.(?:py|md|proto|toml|sh|c|h|mjs|yaml|yml)|Makefile|Dockerfile))"
    r"(?![\w/{*(\[-]|\.\w)"
)
"""A file's name in prose, with as many of its folders as the writer thought useful."""
OUTSIDE = re.compile(
    r"\b(?:design (?:note|document|doc)s?|phase \d+ of|milestones?|as discussed"
    r"|the (?:issue|ticket|spike|prototype|brief|audit|review|roadmap)s?"
    r"|(?:issue|ticket)s? #?\d+)\b",
    re.IGNORECASE,
)
"""Words for texts that are not in the repository, unless the paragraph names a decision."""
HEADING = re.compile(r"^# (\d+)\. (.+)\n\nStatus: (.+)\n", re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\((docs/decisions/.+\.md)\) \| (.+) \|$", re.MULTILINE)

FROM_ELSEWHERE = ("tests/tidy/", "CHANGELOG.md")
"""Speak of files as examples, or as they were at their time."""
NOT_OURS = ("clients/src/", "kafka-features.sh", "kafka-topics.sh", "linux/nsfs.h")
"""Apache Kafka's own files and tools, and Linux's headers; how names of them begin."""


def decisions() -> dict[int, str]:
    """Number -> path of every decision."""
    paths = [path for path in files() if path.startswith("docs/decisions/")]
    return {int(Path(path).name[:4]): path for path in paths}


def decisions_in(words: str) -> list[int]:
    return [int(one) for found in DECISIONS.findall(words) for one in re.findall(r"\d+", found)]


def paths_and_their_ends() -> set[str]:
    return {
        "/".join(parts[at:])
        for path in files()
        for parts in [path.split("/")]
        for at in range(len(parts))
    }


def outside(words: str) -> list[str]:
    """Words that point outside of the repository, in paragraphs that name no decision."""
    return [
        found
        for paragraph in re.split(r"\n\s*\n", words)
        if not DECISIONS.search(paragraph)
        for found in OUTSIDE.findall(paragraph)
    ]


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
        for path in files_with_prose()
        for number in decisions_in(prose(path))
        if number not in known
    ]
    assert wrong == []


def test_invariants_exist():
    known = set(re.findall(r"^## R(\d+) ", text("docs/invariants.md"), re.MULTILINE))
    wrong = [
        f"{path}: R{number}"
        for path in files_with_prose()
        for number in INVARIANT.findall(prose(path))
        if number not in known
    ]
    assert wrong == []


def test_links_lead_to_files():
    wrong = [
        f"{path}: {target}"
        for path in files_with_prose()
        if path.endswith(".md")
        for target, _ in LINK.findall(text(path))
        if "://" not in target and not (ROOT / path).parent.joinpath(target).exists()
    ]
    assert wrong == []


def test_files_that_prose_names_exist():
    known = paths_and_their_ends()
    wrong = [
        f"{path}: {name}"
        for path in files_with_prose()
        if not path.startswith(FROM_ELSEWHERE)
        for name in FILE.findall(prose(path))
        if name not in known and not name.startswith(NOT_OURS)
    ]
    assert wrong == []


def test_nothing_refers_to_a_text_outside_of_the_repository():
    wrong = [
        f"{path}: {found}"
        for path in files_with_prose()
        if path != "tests/tidy/test_references.py"
        for found in outside(prose(path))
    ]
    assert wrong == []


# ---- the patterns themselves ----


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("(decision 9)", [9]),
        ("decisions 99 and 109", [99, 109]),
        ("Decisions 1, 2, and 33 say so, 4 do not", [1, 2, 33]),
        ("decision\n  12 was", [12]),
        ("superseded by decision 99, 2026-11-22", [99]),
        ("a decision in 3 ms", []),
    ],
)
def test_every_number_of_a_list_of_decisions_is_read(words: str, numbers: list[int]):
    assert decisions_in(words) == numbers


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("phase 1 of protocol.md, without", ["protocol.md"]),
        ("see `hop/append.py`, main.c and its main.h.", ["hop/append.py", "main.c", "main.h"]),
        ("tests/bench/loadgen/Makefile has it", ["tests/bench/loadgen/Makefile"]),
        ("https://example.org/a.md or ../b.md or <name>.py or x.py.tmp", []),
        ("`test_x.py::test_y`", ["test_x.py"]),
    ],
)
def test_names_of_files_are_found_with_and_without_backticks(words: str, names: list[str]):
    assert FILE.findall(words) == names


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Design note 13 lets them", ["Design note"]),
        ("as phase 2 of\nthe plan", ["phase 2 of"]),
        ("the spike needed 30 us", ["the spike"]),
        ("the spike's figures are in decision 119", []),
        ("the spike\n\ndecision 119", ["the spike"]),
        ("100 records; issue 17 wants both", ["issue 17"]),
        ("Issue #19: with TLS", ["Issue #19"]),
        ("ticket 4", ["ticket 4"]),
        ("an issue of 3 days, and 2 issues", []),
    ],
)
def test_words_for_texts_elsewhere_are_found(words: str, found: list[str]):
    assert outside(words) == found
