"""One self-contained page of HTML, made of facts, charts and tables.

A browser shows it without a network: styles are in the page, charts are inline SVG, and there are
no scripts. Everything but the charts is escaped, so names of topics and paths, which anybody may
choose, stay text, and characters that are not seen show as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from highwater.spark.page.labels import visible


def _finalize(value: Any) -> Any:
    return value if isinstance(value, Markup) else visible(str(value))


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    finalize=_finalize,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One number with what it counts; `wrong` draws it as one that needs attention."""

    label: str
    value: str
    wrong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing. `svg` is an element of SVG that `charts.to_svg` made; it is not escaped."""

    title: str
    svg: str
    wide: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; numbers stand on the right."""

    name: str
    numbers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text, as many values in each as there are columns."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    empty: str = "None."
    """What stands there instead of a table without rows."""
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: a headline, facts in one line, then charts, then tables; then pages of others below it."""

    title: str
    subtitle: str
    facts: Sequence[Fact] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    parts: Sequence[Page] = ()
    """Have no parts of their own."""


def render(page: Page) -> str:
    """Returns the page as HTML. Raises ValueError if a row does not fit its table's columns."""
    for each in (page, *page.parts):
        for table in each.tables:
            if any(len(row) != len(table.columns) for row in table.rows):
                raise ValueError(f"table {table.title!r}: a row has another number of values")
    return _TEMPLATES.get_template("page.html").render(page=page, markup=Markup)


def write(page: Page, path: Path) -> None:
    """Writes the page to `path` in UTF-8, replacing atomically what is there."""
    draft = path.with_suffix(".tmp")
    draft.write_text(render(page), encoding="utf-8")
    draft.replace(path)
