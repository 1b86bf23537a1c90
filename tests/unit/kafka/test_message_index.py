"""The codec covers what the project promises to be able to decode, and is freshly generated."""

import pytest

from highwater.kafka.messages import request_codec
from tools.codegen.__main__ import KAFKA_PACKAGE, differences

# API key: lowest and highest version that must be decodable (Kafka 4.3, without telemetry).
PROMISED = {
    0: (3, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6),
    11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1),
    18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 24: (0, 5),
    25: (0, 4), 26: (0, 5), 28: (0, 5), 29: (1, 3), 30: (1, 3), 31: (1, 3), 32: (1, 4),
    33: (0, 2), 34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 42: (0, 2), 43: (0, 2),
    44: (0, 1), 45: (0, 1), 46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0),
    51: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 61: (0, 0), 65: (0, 0), 66: (0, 2),
    68: (0, 1), 69: (0, 1), 74: (0, 1), 75: (0, 0),
}  # fmt: skip


@pytest.mark.parametrize(("api_key", "versions"), PROMISED.items())
def test_promised_versions_are_there(api_key: int, versions: tuple[int, int]) -> None:
    codec = request_codec(api_key)
    assert codec.min_version <= versions[0]
    assert codec.max_version >= versions[1]


def test_generated_modules_are_up_to_date() -> None:
    assert differences(KAFKA_PACKAGE) == [], "run: python -m tools.codegen"
