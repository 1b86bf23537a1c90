"""Markers are values."""

from highwater.model.transactions import TransactionMarker


def test_equal_markers_are_one():
    fields = {
        "producer_id": 7,
        "producer_epoch": 1,
        "committed": True,
        "coordinator_epoch": 3,
        "transaction_version": 2,
    }
    assert len({TransactionMarker(**fields), TransactionMarker(**fields)}) == 1
    assert TransactionMarker(**fields) != TransactionMarker(**{**fields, "committed": False})
