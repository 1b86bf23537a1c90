"""Common parts of the commands that break nodes: options, and lines of progress."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from tests.bench.document import DOCUMENT


def parser_of(module: str, description: str | None, *, quick: str) -> argparse.ArgumentParser:
    """A parser with the common options; `quick` describes a quick run."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=description, allow_abbrev=False
    )
    parser.add_argument("--quick", action="store_true", help=f"{quick}: does it work at all")
    parser.add_argument(
        "--write-document", action="store_true", help=f"put the results into {DOCUMENT.name}"
    )
    return parser


def command_of(module: str, arguments: Sequence[str] | None) -> str:
    """The command line as typed; if `arguments` is None, this process's."""
    return shlex.join(["python", "-m", module, *(sys.argv[1:] if arguments is None else arguments)])


def teller(console: Console) -> Callable[[str], None]:
    """A function that prints a line unchanged."""
    return lambda text: console.print(text, markup=False)
