"""A bar chart as SVG, without a library: what each policy serves in each scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

COLORS: Final = ("#9aa0a6", "#d9822b", "#1f77b4", "#8fc1e3")
LABEL_WIDTH: Final = 250
BAR_WIDTH: Final = 420
BAR_HEIGHT: Final = 11
GAP: Final = 12


def bars(names: Sequence[str], rows: Mapping[str, Sequence[float]]) -> str:
    """Groups of bars, one for each row, from 0 to 100 percent."""
    parts = []
    y = 34
    for number, name in enumerate(names):
        x = 12 + number * 150
        parts.append(f'<rect x="{x}" y="8" width="11" height="11" fill="{COLORS[number]}"/>')
        parts.append(f'<text x="{x + 16}" y="18">{escape(name)}</text>')
    for label, values in rows.items():
        middle = y + len(values) * BAR_HEIGHT / 2 + 4
        parts.append(
            f'<text x="{LABEL_WIDTH - 8}" y="{middle:.0f}" text-anchor="end">{escape(label)}</text>'
        )
        for number, value in enumerate(values):
            width = BAR_WIDTH * value / 100
            parts.append(
                f'<rect x="{LABEL_WIDTH}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT - 1}" '
                f'fill="{COLORS[number]}"/>'
            )
            parts.append(
                f'<text x="{LABEL_WIDTH + width + 4:.1f}" y="{y + 9}">{value:.0f} %</text>'
            )
            y += BAR_HEIGHT
        y += GAP
    width = LABEL_WIDTH + BAR_WIDTH + 50
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        'font-family="sans-serif" font-size="11">\n'
        f'<rect width="{width}" height="{y}" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )
