from highwater.partition.groups.consumer.group_state import ConsumerGroupState


def test_names_are_those_of_kafka_s_tools() -> None:
    assert [state.value for state in ConsumerGroupState] == [
        "Empty",
        "Assigning",
        "Reconciling",
        "Stable",
    ]
