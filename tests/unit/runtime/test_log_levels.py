import pytest

from highwater.runtime.log_levels import ROOT, SEVERITIES, LogLevels


def test_levels_from_the_least_to_the_most_severe():
    assert sorted(SEVERITIES, key=SEVERITIES.__getitem__) == [
        "TRACE",
        "DEBUG",
        "INFO",
        "WARN",
        "ERROR",
        "FATAL",
    ]


def test_services_have_roots_level_until_they_get_one():
    levels = LogLevels("WARN")
    levels.add("partition")
    levels.add("gateway")
    assert levels.all() == {"gateway": "WARN", "partition": "WARN", "root": "WARN"}
    levels.set("gateway", "TRACE")
    levels.set(ROOT, "ERROR")
    assert levels.all() == {"gateway": "TRACE", "partition": "ERROR", "root": "ERROR"}
    levels.unset("gateway")
    levels.unset("partition")
    assert set(levels.all().values()) == {"ERROR"}


def test_only_root_and_services_are_known():
    levels = LogLevels()
    levels.add("quota")
    assert [levels.knows(name) for name in ("root", "quota", "gateway", "")] == [1, 1, 0, 0]
    with pytest.raises(AssertionError):
        levels.set("gateway", "INFO")
    with pytest.raises(AssertionError):
        levels.set("quota", "info")


def test_what_is_written():
    levels = LogLevels()
    levels.add("quota")
    levels.set("quota", "FATAL")
    written = {
        service: [severity for severity in (0, 10, 20, 50) if levels.writes(service, severity)]
        for service in ("quota", "gateway", "")
    }
    assert written == {"quota": [50], "gateway": [20, 50], "": [20, 50]}
