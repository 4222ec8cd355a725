"""The bars of a waterfall: of each group its total, and then the parts that add up to it."""

import pandas as pd

TOTAL = "total"
_SMALL, _SMALL_OF_SEVERAL = 0.01, 0.03  # of the total; smaller parts of one kind share a bar
_UNSEEN = 0.0005  # of the total; smaller bars are left out


def waterfall_bars(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per bar: where it starts and ends, and the row of the bar that begins there.

    Bars of several groups start and end in percent of the group's total.

    Args:
        rows: columns group, kind, name and value.
    """
    groups = rows.dropna(subset=["value"]).groupby("group", sort=False)
    least = _SMALL if len(groups) == 1 else _SMALL_OF_SEVERAL
    bars = pd.concat(
        [_placed(str(group), _parts(own, least)) for group, own in groups], ignore_index=True
    )
    bars = bars.assign(
        row=bars.index, next=bars.index.to_series().shift(-1).where(bars["has_next"])
    )
    if len(groups) > 1:
        bars[["start", "end"]] = bars[["start", "end"]].mul(100 / bars["total"], axis=0)
    return bars


def _placed(group: str, parts: pd.DataFrame) -> pd.DataFrame:
    end, total = parts["value"].cumsum(), parts["value"].sum()
    seen = parts.assign(start=end - parts["value"])[parts["value"].abs() > _UNSEEN * abs(total)]
    whole = pd.DataFrame({"kind": [TOTAL], "name": [group], "value": [total], "start": [0.0]})
    bars = pd.concat([whole.assign(has_next=False), seen.assign(has_next=True)], ignore_index=True)
    bars.loc[len(bars) - 1, "has_next"] = False
    return bars.assign(end=bars["start"] + bars["value"], total=total, group=group)


def _parts(rows: pd.DataFrame, least: float) -> pd.DataFrame:
    """One row per part with a value; of each kind the small ones are one, after the others.

    It has the name of the kind if that has no other parts.
    """
    rows = rows.assign(name=rows["name"].fillna(rows["kind"]))
    parts = _summed(rows)
    small = (parts["value"].abs() < least * abs(parts["value"].sum())) & (
        parts["name"] != parts["kind"]
    )
    together = small.groupby(parts["kind"]).transform("sum")
    small &= together > 1
    order = {kind: place for place, kind in enumerate(parts["kind"].unique())}
    others = together.map("{} others".format)
    others = others.where(together < parts.groupby("kind")["name"].transform("size"), parts["kind"])
    named = parts.assign(name=parts["name"].where(~small, others))
    return _summed(pd.concat([named[~small], named[small]])).sort_values(
        "kind", key=lambda kinds: kinds.map(order), kind="stable", ignore_index=True
    )


def _summed(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.groupby(["kind", "name"], as_index=False, sort=False)[["value"]].sum()
