from highwater.kafka.error_messages import MESSAGE_CHARS_MAX, shortened

STRING_BYTES_MAX = 32_767


def test_a_message_of_the_largest_length_stays():
    assert shortened("x" * MESSAGE_CHARS_MAX) == "x" * MESSAGE_CHARS_MAX


def test_a_longer_one_is_cut_and_shows_it():
    cut = shortened("x" * (MESSAGE_CHARS_MAX + 1))
    assert cut == "x" * (MESSAGE_CHARS_MAX - 1) + "…"


def test_what_is_left_is_a_string_of_the_protocol():
    assert len(shortened("🎈" * 40_000).encode()) <= STRING_BYTES_MAX
