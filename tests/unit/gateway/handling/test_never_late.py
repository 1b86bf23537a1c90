from highwater.gateway.handling.apis import APIS
from highwater.gateway.handling.never_late import NEVER_LATE
from highwater.kafka.api_keys import ApiKey


def test_it_has_what_changes_transactions_and_offsets_and_nothing_of_members():
    assert set(APIS) >= NEVER_LATE
    names = {ApiKey(key).name for key in NEVER_LATE}
    assert {name for name in names if "TXN" in name} == {
        key.name
        for key in ApiKey
        if key in APIS and "TXN" in key.name and "MARKERS" not in key.name
    }
    assert {name for name in names if "TXN" not in name} == {
        "INIT_PRODUCER_ID",
        "OFFSET_COMMIT",
        "OFFSET_DELETE",
    }
