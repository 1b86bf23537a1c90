"""The order of the rows' fields, on which both ends rely."""

from highwater.model.ids import TopicId
from highwater.partition.replication.rows import NONE, Answered, Asked


def test_an_answer_begins_with_what_was_asked():
    assert Answered._fields[:5] == Asked._fields[:5]
    asked = Asked(TopicId(b"t" * 16), 3, 4, 5, NONE, 7)
    answered = Answered(*asked.place, 0, 9, 1, 10, NONE, NONE, memoryview(b""))
    assert answered[:5] == asked.place
    assert (answered.high_watermark, answered.log_start_offset, answered.log_end_offset) == (
        9,
        1,
        10,
    )
