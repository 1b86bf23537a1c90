"""The demo's options, from the command line or environment variables."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE_LOG = REPOSITORY / "data" / "apache_access.log"

INDEX_FILE = "index.html"
"""The page of all Spark jobs, in the directory of their results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings of one run; with `bootstrap` it uses a running broker and starts none."""

    host: str
    port: int
    data_dir: Path
    output_dir: Path
    log_file: Path
    topic: str
    bootstrap: str | None
    once: bool

    @property
    def address(self) -> str:
        """host:port that clients connect to."""
        return self.bootstrap or f"{self.host}:{self.port}"


def parse_options(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ
) -> Options:
    """Returns the options. Exits with code 2 and one line if they are invalid."""
    parser = argparse.ArgumentParser(
        description="Starts a broker, sends a web server's log through it and back, has Spark "
        "report on it, load it and compare the two, and serves on until Ctrl-C.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port",
        type=_port,
        default=environment.get("PORT", "9092"),
        help="also from PORT (default: 9092)",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=environment.get("DATA", ".highwater"),
        help="the broker's data, kept between runs; also from DATA (default: .highwater)",
    )
    parser.add_argument(
        "--output-dir",
        type=Path,
        default="build/run",
        help="the report and logs, replaced by each run (default: build/run)",
    )
    parser.add_argument("--log-file", type=Path, default=SAMPLE_LOG, help="the log to load")
    parser.add_argument("--topic", default="access_log")
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="use a broker that runs, and end after the report"
    )
    parser.add_argument("--once", action="store_true", help="end after the report")
    found = parser.parse_args(arguments)
    return Options(
        host=found.host,
        port=found.port,
        data_dir=found.data_dir,
        output_dir=found.output_dir,
        log_file=found.log_file,
        topic=found.topic,
        bootstrap=found.bootstrap,
        once=found.once or found.bootstrap is not None,
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"not a port: {text!r}")
    return int(text)
