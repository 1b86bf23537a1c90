"""Options, markers and the `cluster` fixture of the whole test tree.

`--cluster embedded,nodes3,gateways2,combined3,grpcio3` names the clusters that tests with the fixture
run on, one after the other: one process, three nodes behind a single gateway, three nodes behind two,
three nodes that are their own gateways, and again three behind one with grpcio between them. Of the
clusters of several processes only the tests marked `core` run outside `make full`; with several
gateways, or with grpcio, only those marked `gateways`. `core(version=9)` leaves all other versions to
`make full` there, where what they add has nothing to do with the cluster. `anywhere(moment="files")`
runs the other parameters in one process only, in `make full` too: what they try depends on no cluster.

Tests in `tests/cluster` that break clusters of their own name its forms in `FORMS`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest

# Before they are imported: their assertions, too, are to show the values.
pytest.register_assert_rewrite("tests.support", "tests.conformance", "tests.robustness")

from tests.support.cluster import Cluster, make_cluster  # noqa: E402
from tests.support.worker_groups import ByGroup  # noqa: E402

# How long an example takes says something of the machine and what else runs on it, and nothing of
# the code; the tests' own timeouts stay.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

_SMALLER_SHARE = {
    "nodes3": "core",
    "gateways2": "gateways",
    "combined3": "gateways",
    "grpcio3": "gateways",
}
"""Cluster -> the mark of the tests that run on it outside `make full`; the mark's keywords are the
parameters with which they do, all others if it has none."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("highwater")
    group.addoption(
        "--cluster",
        default="embedded,nodes3,gateways2,combined3,grpcio3",
        help="where cluster tests run: a list of embedded, nodes3, gateways2, combined3, grpcio3, "
        "kafka, external",
    )
    group.addoption("--bootstrap", default=None, help="the broker for --cluster external")
    group.addoption("--seed", type=int, default=None, help="seed of crash and fuzz runs")
    group.addoption(
        "--crash-rounds", type=int, default=None, help="kills per crash test (default: a few)"
    )
    group.addoption(
        "--fuzz-frames", type=int, default=20_000, help="frames that each fuzz test sends"
    )
    group.addoption(
        "--flood-seconds", type=float, default=8, help="how long each flood of clients lasts"
    )
    group.addoption(
        "--fuzz-first",
        type=int,
        default=0,
        help="the connection of a seed that the hop's fuzz test begins with",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "core(parameter=value): cluster tests that also outside `make full` run on three nodes",
    )
    config.addinivalue_line(
        "markers",
        "gateways(parameter=value): cluster tests that also outside `make full` run on several "
        "gateways, and over grpcio",
    )
    config.addinivalue_line(
        "markers",
        "anywhere(parameter=value): on clusters of several processes only these parameters run, ever",
    )
    config.addinivalue_line(
        "markers",
        "quick_forms(name, ...): forms of their module in which these tests also run outside `make full`",
    )
    # kafka-python's way of reading its schemas, at import; nothing in our code can change it.
    config.addinivalue_line("filterwarnings", "ignore:(read_text|open_text) is deprecated")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" not in metafunc.fixturenames:
        return
    marks = {mark.name for mark in metafunc.definition.iter_markers()}

    def is_left_to_full(mode: str) -> bool:
        return mode in _SMALLER_SHARE and _SMALLER_SHARE[mode] not in marks

    modes = [mode.strip() for mode in metafunc.config.getoption("--cluster").split(",")]
    metafunc.parametrize(
        "cluster",
        [
            pytest.param(mode, marks=pytest.mark.full if is_left_to_full(mode) else ())
            for mode in modes
        ],
        indirect=True,
        scope="session",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` keeps together what shares a cluster, a session of Spark or an engine."""
    return ByGroup(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves other parameters of `core(parameter=value)` to `make full`, and of `anywhere` out."""
    needless: list[pytest.Item] = []
    for item in items:
        params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        mode = params.get("cluster", "")
        if _differs(item.get_closest_marker(_SMALLER_SHARE.get(mode, "")), params):
            item.add_marker(pytest.mark.full)
        if mode in _SMALLER_SHARE and _differs(item.get_closest_marker("anywhere"), params):
            needless.append(item)
    if needless:
        config.hook.pytest_deselected(items=needless)
        items[:] = [item for item in items if item not in set(needless)]


def _differs(mark: pytest.Mark | None, params: dict[str, Any]) -> bool:
    return mark is not None and any(params[name] != value for name, value in mark.kwargs.items())


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The cluster that tests share; topics and groups have names of their own per test."""
    made = make_cluster(
        request.param,
        tmp_path_factory.mktemp(request.param),
        bootstrap=request.config.getoption("--bootstrap"),
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the end of the broker's log to the report of a failing cluster test."""
    report = yield
    if report.failed and call.when == "call":
        arguments: dict[str, Any] = getattr(item, "funcargs", {})
        for value in arguments.values():
            if callable(tail := getattr(value, "log_tail", None)):
                report.sections.append((f"end of the log of {type(value).__name__}", tail()))
    return report
