from highwater.partition.storage.cleaning.settings import (
    BACKOFF_MS_MIN,
    CleanerSettings,
    cleaner_settings,
)


def test_defaults_are_the_table_s() -> None:
    assert cleaner_settings({}) == CleanerSettings()


def test_settings_come_from_broker_configs() -> None:
    configs = {
        "log.cleaner.backoff.ms": "500",
        "log.cleaner.dedupe.buffer.size": "2000000",
        "log.cleaner.io.max.bytes.per.second": "1000000.5",
        "message.max.bytes": "5",
    }
    assert cleaner_settings(configs) == CleanerSettings(
        backoff_ms=500, dedupe_buffer_bytes=2_000_000, io_bytes_per_s=1_000_000
    )


def test_a_cleaner_never_looks_without_a_pause() -> None:
    assert cleaner_settings({"log.cleaner.backoff.ms": "0"}).backoff_ms == BACKOFF_MS_MIN


def test_rates_without_a_limit() -> None:
    for text in ("1.7976931348623157E308", "Infinity", "1e19"):
        configs = {"log.cleaner.io.max.bytes.per.second": text}
        assert cleaner_settings(configs).io_bytes_per_s == 0
