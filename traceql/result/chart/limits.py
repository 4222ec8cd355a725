"""Lines across a chart that say how far its points could reach, such as the peak of a link."""

from collections.abc import Iterator

import altair as alt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.result.chart.data import axis_title, chart_of, field_of, in_display_units
from traceql.result.chart.theme import CONFIG, QUIET


def limit_lines(table: pa.Table, columns: list[str], y: str) -> Iterator[alt.Chart]:
    """A line at the largest value of each column, which has the unit of y, with its name."""
    for column in columns:
        largest = pc.max(table[column]).as_py()
        if largest is None:
            continue
        data, (title,) = in_display_units(pa.table({y: [largest]}), [y])
        unit = title[title.rfind("(") + 1 : -1]
        data["limit"] = f"{axis_title(column)} {data[y].iloc[0]:,.0f} {unit}"
        line = chart_of(data).encode(y=alt.Y(field=field_of(y), type="quantitative"))
        yield line.mark_rule(strokeDash=[5, 4], color=QUIET)
        yield line.mark_text(
            align="left",
            baseline="bottom",
            color=QUIET,
            dx=4,
            dy=-2,
            fontSize=CONFIG["axis"]["labelFontSize"],
        ).encode(x=alt.value(0), text=alt.Text(field="limit", type="nominal"))
