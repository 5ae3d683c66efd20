"""Numbers as people read them, bars and histograms, as HTML and SVG without a library.

Rule: a drawing's colours come from the page's style, so that it follows the theme; its numbers stand in `<title>` as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

WIDTH, HEIGHT = 520, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 14, 44
NONE: Final = "-"
UNITS: Final = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"))


def short(value: float | None, digits: int = 3) -> str:
    """1,234,567 as 1.23 M; what has four places stays whole."""
    if value is None:
        return NONE
    if abs(value) < 10_000 and value == int(value):
        return f"{value:,.0f}"
    for size, unit in UNITS:
        if abs(value) >= size * 0.9995:  # 999,600 is 1.00 M
            scaled = value / size
            places = len(str(int(abs(float(f"{scaled:.{digits}g}")))))  # of what is shown: 99.99 becomes 100
            return f"{scaled:.{max(0, digits - places)}f}{unit}"
    return f"{value:.{digits}g}"


def size(count: float | None) -> str:
    """8,659 B, 1.23 MB."""
    told = short(count)
    return told if told == NONE else f"{told}B" if told[-1].isalpha() else f"{told} B"


def milliseconds(seconds: float | None) -> str:
    return NONE if seconds is None else f"{1000 * seconds:,.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"


def seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f} s" if value >= 10 else f"{value:.2g} s"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def text(value: object) -> str:
    return escape(str(value))


class Bar(NamedTuple):
    name: str
    value: float
    shown: str


def bars(rows: Sequence[Bar], mark: float | None = None, mark_name: str = "") -> str:
    """Horizontal bars from zero; `mark` is a line across all of them. A row answers to its name when protocols are switched."""
    most = max([row.value for row in rows] + [mark or 0.0]) or 1.0
    line = ""
    if mark:
        line = f'<i class="mark" style="left:{100 * mark / most:.2f}%" title="{text(mark_name)}"></i>'
    parts = [
        f'<div class="bar" data-protocol="{text(row.name)}" title="{text(row.shown)}"><span>{text(row.name)}</span>'
        f'<div class="track"><b style="width:{100 * row.value / most:.2f}%"></b>{line}</div><em>{text(row.shown)}</em></div>'
        for row in rows
    ]
    return f'<div class="bars">{"".join(parts)}</div>'


class Bin(NamedTuple):
    name: str
    height: int
    title: str


def histogram(bins: Sequence[Bin], across: str, up: str) -> str:
    """Bars side by side with a scale; names of bins stand below as far as there is room."""
    if not bins:
        return '<p class="quiet">Nothing to show.</p>'
    most = max(each.height for each in bins) or 1
    ticks = _ticks(most)
    top = ticks[-1]
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    step = wide / len(bins)
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(up)} by {text(across)}">']
    for tick in ticks:
        y = TOP + high * (1 - tick / top)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_round(tick)}</text>'
        )
    every = max(1, -(-len(bins) // 10))
    gap = 2 if step > 6 else 0.5
    for at, each in enumerate(bins):
        tall = high * each.height / top
        x = LEFT + at * step
        parts.append(
            f'<rect class="column" x="{x + gap / 2:.1f}" y="{TOP + high - tall:.1f}" width="{max(step - gap, 0.5):.1f}" '
            f'height="{tall:.1f}" rx="{1.5 if step > 6 else 0}"><title>{text(each.title)}</title></rect>'
        )
        if at % every == 0:
            parts.append(
                f'<text class="tick" x="{x + step / 2:.1f}" y="{TOP + high + 16}" text-anchor="middle">{text(each.name)}</text>'
            )
    parts.append(f'<text class="axis" x="{LEFT + wide / 2}" y="{HEIGHT - 8}" text-anchor="middle">{text(across)}</text></svg>')
    return "".join(parts)


def _round(tick: float) -> str:
    for size, unit in UNITS:
        if tick >= size:
            return f"{tick / size:g}{unit}"
    return f"{tick:g}"


def _ticks(most: float) -> list[float]:
    """Three to six round steps from zero to above the greatest."""
    step = 1.0
    while most / step > 5:
        step *= 2 if str(int(step))[0] in "15" else 2.5
    return [step * at for at in range(int(-(-most // step)) + 1)]


class Cell(NamedTuple):
    """`shown` is HTML already; the table is sorted by `by`."""

    shown: str
    by: float | str


Headings = Sequence[tuple[str, str]]
"""Names, and 'number' or 'text'."""


def table(headings: Headings, rows: Sequence[Sequence[Cell]]) -> str:
    """A table that sorts when its headings are pressed; a row answers to its first cell when protocols are switched."""
    head = "".join(
        f'<th scope="col" class="{kind}"><button type="button">{text(name)}</button></th>' for name, kind in headings
    )
    body = []
    for row in rows:
        cells = "".join(
            f'<td class="{kind}" data-by="{text(cell.by)}">{cell.shown}</td>'
            for cell, (_, kind) in zip(row, headings, strict=True)
        )
        body.append(f'<tr data-protocol="{text(row[0].by)}">{cells}</tr>')
    return _framed(head, "".join(body), "sorted")


def plain_table(headings: Headings, rows: Sequence[Sequence[str]]) -> str:
    """One that stays as it is. Cells are HTML already."""
    head = "".join(f'<th scope="col" class="{kind}">{text(name)}</th>' for name, kind in headings)
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell}</td>' for cell, (_, kind) in zip(row, headings, strict=True)) + "</tr>"
        for row in rows
    )
    return _framed(head, body, "plain")


def _framed(head: str, body: str, css: str) -> str:
    return f'<div class="scroll"><table class="{css}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
