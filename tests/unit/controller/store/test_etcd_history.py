"""What the header of an answer shows about etcd's history."""

from types import SimpleNamespace
from typing import Any

import pytest

from highwater.controller.store.etcd_history import EtcdHistory
from highwater.controller.store.port import StoreWentBackError


def header(revision: int, cluster_id: int = 0xA) -> Any:
    return SimpleNamespace(cluster_id=cluster_id, revision=revision)


def test_the_newest_revision_is_kept() -> None:
    history = EtcdHistory()
    assert history.note(header(5))
    assert history.note(header(5))
    assert not history.note(header(4)), "a member that lags"
    assert history.revision == 5


def test_an_answer_may_be_older_than_a_later_one() -> None:
    history = EtcdHistory()
    history.note(header(5))
    seen = history.revision
    history.note(header(9))
    history.check(header(6), seen)
    assert history.revision == 9


def test_an_answer_older_than_the_request_shows_a_restored_store() -> None:
    history = EtcdHistory()
    history.note(header(5))
    with pytest.raises(StoreWentBackError, match="revision 5 to 4"):
        history.check(header(4), history.revision)
    history.check(header(5), history.revision)


def test_another_cluster() -> None:
    history = EtcdHistory()
    history.note(header(5))
    assert not history.note(header(99, cluster_id=0xB))
    assert history.revision == 5
    with pytest.raises(StoreWentBackError, match="another cluster: its id is b, and was a"):
        history.check(header(99, cluster_id=0xB), 5)


def test_the_driver_checks_its_own_token_key() -> None:
    history = EtcdHistory()
    history.check_key(7, 7)
    with pytest.raises(StoreWentBackError):
        history.check_key(6, 7)
