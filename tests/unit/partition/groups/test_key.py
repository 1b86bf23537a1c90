from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.partition.groups.key import GroupKey


def test_groups_of_one_id_in_two_instances_are_two() -> None:
    assert GroupKey(DEFAULT_INSTANCE, "g") != GroupKey(InstanceId("team"), "g")
