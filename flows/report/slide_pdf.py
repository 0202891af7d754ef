"""Charts as a PDF, by matplotlib: it embeds fonts, so any script can be read and searched.

Nothing but `hushrank export` loads this module.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from hushrank.flows.report.slide import Chart, Dot, Stroke, Words
from hushrank.flows.report.svg import FONTS

DOTS = 96  # pixels of a chart in an inch, as CSS has them
POINTS = 72 / DOTS  # of a pixel
ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def charts_pdf(charts: Sequence[Chart]) -> tuple[bytes, bool]:
    """A PDF with a page for each chart; and whether the machine's fonts have every character."""
    file, there = io.BytesIO(), sorted(set(get_font_names()))
    families = [name for each in FONTS.split(",") if (name := each.strip(" '")) in there]
    families += [name for name in there if name.startswith("Noto Sans ")]  # scripts of the world
    head = {"Title": charts[0].title, "Subject": charts[0].description, "Creator": "hushrank"}
    with (
        warnings.catch_warnings(record=True) as caught,
        rc_context({"pdf.fonttype": 42, "font.family": families, "text.parse_math": False}),
        PdfPages(file, metadata=head) as pdf,
    ):
        for chart in charts:
            pdf.savefig(_page(chart), facecolor=chart.paper)
    return file.getvalue(), not any("missing from font" in str(each.message) for each in caught)


def _page(chart: Chart) -> Figure:
    figure = Figure(figsize=(chart.width / DOTS, chart.height / DOTS))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, chart.width), ylim=(chart.height, 0))
    axes.set_axis_off()
    for mark in chart.marks:
        _draw(axes, mark)
    return figure


def _draw(axes: Axes, mark: Stroke | Dot | Words) -> None:
    match mark:
        case Stroke(x1, y1, x2, y2, colour, width):
            line = Line2D((x1, x2), (y1, y2), color=colour, linewidth=POINTS * width)
            line.set_solid_capstyle("butt")
            axes.add_line(line)
        case Dot(x, y, radius, colour):
            axes.add_patch(Circle((x, y), radius, color=colour, linewidth=0, zorder=3))
        case Words(text, x, y, size, colour, anchor, bold):
            axes.text(
                x,
                y + 0.35 * size,
                text,
                fontsize=POINTS * size,
                color=colour,
                ha=ANCHORS[anchor],
                fontweight="bold" if bold else "normal",
            )
