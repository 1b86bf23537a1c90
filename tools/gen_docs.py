"""Generates pages of docs/ from the code (run by `make docs` and `make verify-docs`).

Usage: python -m tools.gen_docs [--check]. With --check it writes nothing and exits 1 if a page is
stale.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docs_pages import apis, metrics

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES: Mapping[str, Callable[[], str]] = {"apis.md": apis.page, "metrics.md": metrics.page}


def stale() -> list[str]:
    """Names of the pages that differ from the code."""
    return [
        name
        for name, make in PAGES.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text() != make()
    ]


def main() -> None:
    """Writes the pages, or checks them."""
    if "--check" not in sys.argv[1:]:
        for name, make in PAGES.items():
            (DOCS / name).write_text(make())
        return
    found = stale()
    if found:
        sys.exit("generated pages are stale, run `make docs`: " + ", ".join(found))


if __name__ == "__main__":
    main()
