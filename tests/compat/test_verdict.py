"""Reports of kafka-python's suite are read, and compared with what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.kafka_python.verdict import Exclusion, Outcome, Status, judge, read_outcomes

PASSED = Outcome(Status.PASSED)
FAILED = Outcome(Status.FAILED, "no such API")
SKIPPED = Outcome(Status.SKIPPED, "not today")
SASL = Exclusion(tests="test_sasl", reason="no logins")

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="5">
<testcase classname="test.integration.test_admin" name="test_topics" time="1" />
<testcase classname="test.integration.test_admin" name="test_acls"><failure
 message="SecurityDisabledError:&#10;  no authorizer">long</failure></testcase>
<testcase classname="test.integration.test_sasl" name="test_admin[PLAIN]"><skipped
 type="pytest.skip" message="external broker">where</skipped></testcase>
<testcase classname="test.integration.test_ssl.TestSsl" name="test_handshake"><error
 message="failed on setup">long</error></testcase>
<testcase classname="test.integration.test_group" name="test_closes" />
<testcase classname="test.integration.test_group" name="test_closes"><error
 message="failed on teardown">long</error></testcase>
</testsuite></testsuites>"""


def test_a_report_is_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert read_outcomes(report) == {
        "test_admin::test_topics": PASSED,
        "test_admin::test_acls": Outcome(Status.FAILED, "SecurityDisabledError: no authorizer"),
        "test_sasl::test_admin[PLAIN]": Outcome(Status.SKIPPED, "external broker"),
        "test_ssl::TestSsl::test_handshake": Outcome(Status.FAILED, "failed on setup"),
        "test_group::test_closes": Outcome(Status.FAILED, "failed on teardown"),
    }


def test_all_but_exclusions_have_to_pass() -> None:
    found = judge({"test_a::x": PASSED, "test_sasl::y[PLAIN]": SKIPPED}, [SASL])
    assert found.good
    assert found.passed == ("test_a::x",)
    assert found.excluded == {"test_sasl::y[PLAIN]": "no logins"}
    assert found.lines()[-1] == "1 passed, 0 failed, 1 excluded"


@pytest.mark.parametrize("outcome", [FAILED, SKIPPED])
def test_what_does_not_pass_is_told(outcome: Outcome) -> None:
    found = judge({"test_a::x": PASSED, "test_a::z": outcome}, [])
    assert not found.good
    assert f"FAILED    test_a::z: {outcome.status}: {outcome.message}" in found.lines()


def test_an_excluded_test_must_not_pass() -> None:
    found = judge({"test_a::x": PASSED, "test_sasl::y": PASSED}, [SASL])
    assert not found.good
    assert found.passed_though_excluded == ("test_sasl::y",)


@pytest.mark.parametrize("outcome", [PASSED, FAILED])
def test_an_excluded_test_may_pass_by_chance(outcome: Outcome) -> None:
    chance = Exclusion(tests="test_a::y", reason="placement", may_pass=True)
    assert judge({"test_a::x": PASSED, "test_a::y": outcome}, [chance]).good


def test_an_exclusion_has_to_fit_a_test_of_the_whole_suite() -> None:
    assert judge({"test_a::x": PASSED}, [SASL]).unused == (SASL,)
    assert not judge({"test_a::x": PASSED}, [SASL]).good
    assert judge({"test_a::x": PASSED}, [SASL], whole=False).good


def test_nothing_is_not_good() -> None:
    assert not judge({}, []).good


@pytest.mark.parametrize(
    ("tests", "fits"),
    [
        ("test_a", True),
        ("test_a::test_x", True),
        ("test_a::test_x[1]", True),
        ("test_a::test", False),
        ("test_b", False),
    ],
)
def test_exclusions_name_modules_or_tests(tests: str, fits: bool) -> None:
    assert Exclusion(tests=tests, reason="").fits("test_a::test_x[1]") is fits
