"""Outcomes of a run of kafka-python's suite, compared with what is expected of it.

Every test has to pass but those that an `Exclusion` names, and these must not pass, unless chance
decides: a reason that no longer holds is to be removed. So is an exclusion that fits no test.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MESSAGE_CHARACTERS_MAX = 300


class Status(StrEnum):
    """What pytest says of a test."""

    PASSED = "passed"
    FAILED = "failed"
    """Also if its fixtures failed, before or after it."""
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test ended."""

    status: Status
    message: str = ""
    """Of a failure its error, of a skipped test its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Tests that do not pass, and why."""

    tests: str
    """The module, or the module and the test: `test_sasl_integration`,
    `test_admin_integration::test_create_partitions`."""
    reason: str
    may_pass: bool = False
    """Chance decides, such as where a replica is placed."""

    def fits(self, test: str) -> bool:
        """True if it names the test."""
        return test == self.tests or test.startswith((f"{self.tests}::", f"{self.tests}["))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A run, sorted."""

    passed: tuple[str, ...]
    excluded: Mapping[str, str]
    """The tests of exclusions that did not pass, with the reasons."""
    failed: Mapping[str, str]
    """Tests that should have passed, with their errors. A skipped one counts as failed."""
    passed_though_excluded: tuple[str, ...]
    unused: tuple[Exclusion, ...]
    """Exclusions that fit no test."""

    @property
    def good(self) -> bool:
        """True if everything is as expected, and something ran."""
        surprising = self.failed or self.passed_though_excluded or self.unused
        return bool(self.passed) and not surprising

    def lines(self) -> list[str]:
        """A report for the terminal: a line for each test that did not pass, and the counts."""
        return [
            *(f"excluded  {test}: {reason}" for test, reason in self.excluded.items()),
            *(f"PASSED    {test}, which is excluded" for test in self.passed_though_excluded),
            *(f"UNUSED    the exclusion of {each.tests} fits no test" for each in self.unused),
            *(f"FAILED    {test}: {error}" for test, error in self.failed.items()),
            f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.excluded)} excluded",
        ]


def judge(
    outcomes: Mapping[str, Outcome], exclusions: Sequence[Exclusion], *, whole: bool = True
) -> Verdict:
    """Sorts outcomes. If only some tests ran (not `whole`), exclusions need not fit one."""
    passed, excluded, failed, surprises = [], {}, {}, []
    for test, outcome in outcomes.items():
        exclusion = next((each for each in exclusions if each.fits(test)), None)
        did_pass = outcome.status is Status.PASSED
        if exclusion is not None and not did_pass:
            excluded[test] = exclusion.reason
        elif exclusion is not None and not exclusion.may_pass:
            surprises.append(test)
        elif did_pass:
            passed.append(test)
        else:
            failed[test] = f"{outcome.status}: {outcome.message}"
    unused = (each for each in exclusions if whole and not any(map(each.fits, outcomes)))
    return Verdict(
        passed=tuple(passed),
        excluded=excluded,
        failed=failed,
        passed_though_excluded=tuple(surprises),
        unused=tuple(unused),
    )


def read_outcomes(report: Path) -> dict[str, Outcome]:
    """Reads pytest's JUnit report: outcomes by `module::test`, with the class if there is one.

    Raises OSError if there is no report, and ParseError if it is none.
    """
    outcomes: dict[str, Outcome] = {}
    for case in ET.parse(report).getroot().iter("testcase"):
        # Directories, module, class: the module is the one that pytest takes for tests.
        words = str(case.get("classname")).split(".")
        module = next(index for index, word in enumerate(words) if word.startswith("test_"))
        name = "::".join([*words[module:], str(case.get("name"))])
        outcome = _outcome(case)
        # A test whose teardown failed, too, is there twice.
        if name not in outcomes or outcome.status is Status.FAILED:
            outcomes[name] = outcome
    return outcomes


def _outcome(case: ET.Element) -> Outcome:
    for tags, status in ((("failure", "error"), Status.FAILED), (("skipped",), Status.SKIPPED)):
        found = next(_children(case, tags), None)
        if found is not None:
            message = " ".join(str(found.get("message") or "").split())
            return Outcome(status, message[:MESSAGE_CHARACTERS_MAX])
    return Outcome(Status.PASSED)


def _children(case: ET.Element, tags: Iterable[str]) -> Iterator[ET.Element]:
    return (child for tag in tags for child in case.iter(tag))
