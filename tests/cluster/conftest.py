"""Fixtures of the cluster tests, which stop and break clusters of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import replicated as three
from tests.cluster.runner import Up
from tests.cluster.secure_listeners import SecureCluster
from tests.support.replicated_cluster import ReplicatedCluster

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(150))
            item.add_marker(pytest.mark.slow)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests of a module in the forms that its `FORMS` names.

    The marker `forms` names those of one test. All but the first are left to `make full`, unless the
    test is marked `quick_forms` with their names.
    """
    forms = getattr(metafunc.module, "FORMS", ())
    if own := metafunc.definition.get_closest_marker("forms"):
        forms = own.args
    always = {
        form for mark in metafunc.definition.iter_markers("quick_forms") for form in mark.args
    }.union(forms[:1])
    if forms and "replicated" in metafunc.fixturenames:
        metafunc.parametrize(
            "replicated",
            [
                pytest.param(form, marks=() if form in always else pytest.mark.full)
                for form in forms
            ],
            indirect=True,
            scope="module",
        )


@pytest.fixture
def up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Up]:
    """A running cluster of the mode that the test is parametrized with."""
    made = Up(request.param, tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("combined3", marks=pytest.mark.full)]
)
def secure(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureCluster]:
    """One with a listener for each way to connect."""
    made = SecureCluster(request.param, tmp_path_factory.mktemp("secure"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def replicated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReplicatedCluster]:
    """Three nodes for the tests of a module, in the shape that its `SHAPE` says, if it has one."""
    shape = getattr(request.module, "SHAPE", three.SHAPE)
    shape = three.in_form(shape, getattr(request, "param", "split"))
    with three.running(tmp_path_factory.mktemp("replicated"), shape) as made:
        yield made


@pytest.fixture
def whole(replicated: ReplicatedCluster) -> Iterator[ReplicatedCluster]:
    """The same cluster with all processes running and replicas in sync, before and after the test."""
    yield replicated
    three.heal(replicated)
