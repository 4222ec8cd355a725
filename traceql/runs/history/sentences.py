"""Says in a sentence what happened in a series: since when it is slower, and how sure that is."""

from collections.abc import Iterator
from math import isfinite
from statistics import median

from traceql.runs.history.lookback import LEAST_BEFORE, LEAST_DEVIATION, LEAST_POINTS, Mark
from traceql.runs.history.recorded import day_and_time
from traceql.runs.history.series import By, Point, Series
from traceql.util.units import TIME

_LARGE_PCT = 10  # from here on, decimals do not matter
_LEAST_LEFT_OUT_PCT = 1


def told(series: Series, by: By) -> str:
    """`slower by 6.1% since 2026-11-03 09:12 (commit abc1234), z = 8.2`."""
    return "; ".join(_parts(series, by))


def changes(series: Series) -> list[Point]:
    """The points at which a change begins, the latest first."""
    found = [point for point in series.points if point.looked.mark is Mark.CHANGE]
    return found[::-1]


def shift(point: Point) -> float | None:
    """By how much the level since a change differs from what was expected before; relative."""
    looked = point.looked
    if looked.mark is not Mark.CHANGE or not looked.expected:
        return None
    return looked.level / looked.expected - 1


def difference(point: Point) -> float | None:
    """By how much a point differs from what was expected; relative."""
    expected = point.looked.expected
    return point.ns / expected - 1 if expected else None


def compared_words(series: Series, relative: float | None) -> str:
    """`slower by 6.1%`; of idle time and the like, `more by 6.1%`."""
    more, less = ("more", "less") if series.kind == "part" else ("slower", "faster")
    if relative is None:
        return f"no longer 0, but {more}"
    return f"{more if relative > 0 else less} by {percent(abs(relative))}"


def too_few(series: Series) -> str:
    """Says that nothing can be marked; empty if it can."""
    if len(series.points) < LEAST_POINTS:
        return f"too few runs to see a change ({_counted(series)}; it takes {LEAST_POINTS})"
    if all(point.looked.mark is Mark.TOO_FEW for point in series.points):
        return (
            f"the runs differ too much to see a change ({_counted(series)}; without those that "
            f"are off, fewer than {LEAST_BEFORE} are left to compare one with)"
        )
    return ""


def percent(relative: float) -> str:
    return f"{100 * relative:.{0 if abs(100 * relative) >= _LARGE_PCT else 1}f}%"


def x_label(point: Point, by: By) -> str:
    """What stands on the axis: the time, or the commit."""
    first = point.runs[0]
    if by is By.TIME:
        return f"{day_and_time(first.time[0])}:{first.time[0] // 10**9 % 60:02}"
    return first.commit if by is By.COMMIT else first.vllm_commit


def _parts(series: Series, by: By) -> Iterator[str]:
    changed, last = changes(series), series.points[-1]
    if few := too_few(series):
        yield few
    elif changed:
        yield _change(series, changed[0], by)
        yield from (f"before that, {_change(series, one, by)}" for one in changed[1:])
    else:
        yield f"no change in {_counted(series)}, {_typical(series)}"
    if last.looked.mark is Mark.UNCONFIRMED:
        yield (
            f"the last one is {compared_words(series, difference(last))} (z = {_z(last)}), and "
            "one more run tells whether it stays so"
        )
    outliers = [point for point in series.points if point.looked.mark is Mark.OUTLIER]
    if outliers:
        names = ", ".join(x_label(point, by) for point in outliers)
        yield f"{'outlier' if len(outliers) == 1 else 'outliers'} {names}"
    left_out = median(point.left_out_pct for point in series.points)
    if left_out >= _LEAST_LEFT_OUT_PCT:
        yield f"{left_out:.0f}% of the time is in steps that not all of these runs have, left out"


def _change(series: Series, point: Point, by: By) -> str:
    since = day_and_time(point.runs[0].time[0])
    commit = f"commit {x_label(point, by)}" if by is not By.TIME else _commit(point)
    return (
        f"{compared_words(series, shift(point))} since {since}"
        f"{f' ({commit})' if commit else ''}, z = {_z(point)}"
    )


def _commit(point: Point) -> str:
    commit = point.runs[0].commit
    return f"commit {commit}" if commit else ""


def _z(point: Point) -> str:
    z = point.looked.z
    return f"{z:.1f}" if z is not None and isfinite(z) else "infinite"


def _counted(series: Series) -> str:
    points, runs = len(series.points), sum(len(point.runs) for point in series.points)
    if points == runs:
        return f"{runs} {'run' if runs == 1 else 'runs'}"
    return f"{points} {'point' if points == 1 else 'points'} of {runs} runs"


def _typical(series: Series) -> str:
    typical = median(point.ns for point in series.points)
    divisor = TIME.divisor(typical)
    text = f"{typical / divisor:.3g} {TIME.symbol(divisor)}"
    deviation = series.points[-1].looked.deviation
    if deviation is None or not typical:
        return text
    least = " or less" if deviation <= LEAST_DEVIATION * typical else ""
    return f"{text} with a deviation of {percent(deviation / typical)}{least} from run to run"
