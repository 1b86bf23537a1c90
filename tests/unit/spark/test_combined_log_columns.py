"""Expressions that `LineColumns` takes; that Spark computes what Python does is shown in tests/spark."""

from __future__ import annotations

import re

from highwater.spark import access_events, combined_log
from tools.demo.options import SAMPLE_LOG

GROUPS = (
    combined_log.TIME_GROUP,
    combined_log.REQUEST_GROUP,
    combined_log.STATUS_GROUP,
    combined_log.BYTES_GROUP,
)


def test_an_expression_with_more_groups_finds_the_same_fields() -> None:
    short, long = re.compile(combined_log.LINE), re.compile(access_events.LINE)
    for line in SAMPLE_LOG.read_text(encoding="utf-8").splitlines():
        one, other = short.match(line), long.match(line)
        assert one is not None
        assert other is not None
        assert one.group(*GROUPS) == other.group(*GROUPS)
