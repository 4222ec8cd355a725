"""The look of all charts, and one color for each thing, the same in all of them.

The colors are built from the palettes of Okabe and Ito and of Tol, which colour-blind readers can
distinguish. What matters most in an inference trace has the most distinct hues, and idle time is
grey. A role has a shade of the colour of its kernels' category.
"""

from typing import Any

SEQUENCE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#B8A800", "#882255"]
ORDER = ["#F6AE3A", "#F08455", "#D95F86", "#A8489F", "#6A3596", "#1B1464"]  # from little to much
DIVERGING = ["#2166AC", "#F4F4F4", "#B2182B"]  # less, equal, more
SHORTER, EQUAL, LONGER = "#2166AC", "#8A949E", "#B2182B"  # of two sides
CHANGES = {
    "longer": LONGER, "shorter": SHORTER, "longer, not sure": "#DDA0A7",
    "shorter, not sure": "#A3BDDA",
}  # fmt: skip
NOT_SURE = ("no change", "inconclusive")
VERDICTS = {"slower": LONGER, "faster": SHORTER, "no change": EQUAL}
UNKNOWN = "unknown"  # what charts show for NULL
_IDLE = "#B4BAC2"
_WAIT = "#EBCB4A"  # as light as idle time is, so that a transfer is what stands out
_BLUE, _ORANGE, _GREEN, _VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"

_COMMUNICATION = "#F7B49F"  # transfers and waiting together

CATEGORY_COLOURS = {
    "gemm": _BLUE, "attention": _ORANGE, "collective": _VERMILION, "moe": _GREEN, "norm": "#56B4E9",
    "rope": "#117733", "activation": "#CC79A7", "kv_cache": "#E0D130", "elementwise": "#999933",
    "sampling": "#AA4499", "input_prep": "#44AA99", "memcpy": "#7A0177", "memset": "#DDCC77",
    "graph": "#332288", "other": "#767676",
}  # fmt: skip

ROLES = {
    "qkv_proj": _BLUE, "o_proj": "#3F95CC", "gate_up_proj": "#00507D", "down_proj": "#2C6FA6",
    "lm_head": "#6C8EBF", "router": "#7FA6D6", "kv_b_proj": "#1A5E8F", "shared_gate": "#9DB9DF",
    "attention": _ORANGE, "kv_write": "#E0D130", "conv": "#C9BC2A", "attn_allreduce": _VERMILION,
    "mlp_allreduce": "#F0884A", "logits_gather": "#B34A12", "dispatch": "#C44A2E",
    "combine": "#E8967F", "pp_send": "#F2A47A", "pp_recv": "#9C3D0A", "topk": "#7BC8A4",
    "moe_align": "#33A582", "experts_gate_up": _GREEN, "experts_down": "#55C4A0",
    "moe_sum": "#00694D", "input_norm": "#56B4E9", "qk_norm": "#8CCBF0", "attn_norm": "#9AD2F2",
    "post_attn_norm": "#7CC0EA", "pre_mlp_norm": "#68B5E4", "post_mlp_norm": "#94C9EC",
    "final_norm": "#A9D8F4", "rope": "#117733", "act": "#CC79A7", "embed": "#999933",
    "sample": "#AA4499", "input_prep": "#44AA99", "other": "#767676",
}  # fmt: skip

CLASSES_OF_TIME = {
    "computing": _BLUE, "exposed_transfer": _VERMILION, "exposed_wait": _WAIT,
    "exposed_comm": _COMMUNICATION, "exposed_unmatched": _COMMUNICATION, "exposed_copy": "#7A0177",
    "idle": _IDLE, "overlap": _GREEN, "wait": _WAIT, "waiting": _WAIT, "transfer": _VERMILION,
    "exposed": _COMMUNICATION, "hidden": _GREEN, "comm": _COMMUNICATION, "other_comm": "#8C4A6B",
    "rest": _BLUE, "work": _BLUE, "bubble": _ORANGE, "neither": _IDLE, "ideal": _IDLE,
}  # fmt: skip

# By what they are for; causes of idle time are shades of its grey.
PARTS_OF_STEPS = {
    "projections": _BLUE, "experts": _GREEN, "routing": "#7BC8A4", "norms": "#56B4E9",
    "head": "#CC79A7", "other_computing": "#999933", "unmatched": _COMMUNICATION,
    "idle_host": _IDLE, "idle_sync": "#8E969F", "idle_launch": "#D3D8DD", "idle_other": "#E6E9EC",
}  # fmt: skip

# The parts of a step; what it had to take is green, as is what costs nothing.
LOSSES = {
    "floor": _GREEN, "padding": "#882255", "small_kernels": "#CC79A7", "below_roofline": "#56B4E9",
    "not_modelled": "#999933", "comm_floor": "#00694D", "comm_above_floor": _VERMILION,
    "comm_unmatched": _COMMUNICATION, "expert_imbalance": _ORANGE, "copies": "#7A0177",
    "other_step": "#767676",
}  # fmt: skip

BOUNDS = {"memory": _GREEN, "compute": _BLUE, "link": _VERMILION, "above": _IDLE}
BOUNDS |= {"MBU": _GREEN, "MFU": _BLUE}  # the use of the memory and of the compute units

PHASES = {"prefill": _ORANGE, "decode": _BLUE, "mixed": _GREEN, "idle": _IDLE}

# UNKNOWN: darker than idle time, beside which it may stand.
CAUSES = {
    "sync": "#7A0177", "host": _ORANGE, "dependency": _GREEN, "launch": "#56B4E9",
    "not recorded": "#B8A88A", UNKNOWN: "#55606B", "kernel": _BLUE, "preemption": "#882255",
    "copy": "#7A0177",
    "communication": _COMMUNICATION, "peer": "#E8A0BF", "skew": "#767676", "start": "#117733",
    "pipeline": "#CC79A7", "clock": "#999933",
}  # fmt: skip

OPERATIONS = {
    "all_reduce": _VERMILION, "all_gather": _BLUE, "reduce_scatter": _ORANGE, "all_to_all": _GREEN,
    "broadcast": "#CC79A7", "send": "#56B4E9", "recv": "#117733",
}  # fmt: skip

# Light, because they carry black text.
HOST_EVENTS = {
    "python": "#8CC5F0", "annotation": "#3FAE89", "operator": "#F2B84B", "runtime": "#D57FB0",
    "other": "#767676",
}  # fmt: skip
AROUND_HOST_EVENTS = {"thread": "#A9B4C0", "phase": "#C3CBD4", "smaller": "#DDE2E8"}

PASSES = {"unprofiled": _BLUE, "profiled": _ORANGE}

COLOURS = CATEGORY_COLOURS | ROLES | CLASSES_OF_TIME | LOSSES | BOUNDS | PHASES | CAUSES
COLOURS |= HOST_EVENTS | AROUND_HOST_EVENTS | PARTS_OF_STEPS | CHANGES | VERDICTS
COLOURS |= OPERATIONS | PASSES | {"throttled": _VERMILION, "not throttled": _BLUE}
COLOURS |= {"work": _BLUE, "speed": _ORANGE, "only one side": "#CC79A7", "outside": _IDLE}
INK, QUIET, RULE, PAPER = "#1f2328", "#59636e", "#d8dde3", "#ffffff"
FONT = "Arial, sans-serif"  # a PNG has no text at all if one of the named fonts is missing
HEIGHT, ROW_HEIGHT = 260, 22  # pixels
LABEL_SIZE = 11  # of the font
CONFIG: dict[str, Any] = {
    "aria": False,
    "background": PAPER,
    "font": FONT,
    "padding": 8,
    "title": {
        "anchor": "start", "color": INK, "fontSize": 15, "fontWeight": 600, "frame": "bounds",
        "offset": 14,
    },
    "axis": {
        "domainColor": RULE, "gridColor": RULE, "gridOpacity": 0.7, "labelColor": QUIET,
        "labelFontSize": LABEL_SIZE, "labelOverlap": True, "labelPadding": 6, "tickColor": RULE,
        "ticks": False, "titleColor": QUIET, "titleFontSize": 11, "titleFontWeight": 400,
        "titlePadding": 8,
    },
    "legend": {
        "labelColor": INK, "labelFontSize": 11, "orient": "top", "symbolSize": 90,
        "titleColor": QUIET, "titleFontSize": 11, "titleFontWeight": 400, "titleOrient": "left",
        "titlePadding": 10,
    },
    "mark": {"color": SEQUENCE[0]},
    "range": {"category": SEQUENCE},
    "view": {"stroke": None},
}  # fmt: skip


def in_order(count: int) -> list[str]:
    """Colors of as many steps from little to much, which stay in order for colour-blind readers."""
    found = []
    for number in range(count):
        place = number * (len(ORDER) - 1) / max(count - 1, 1)
        first = min(int(place), len(ORDER) - 2)  # between two of ORDER, their mean by distance
        ends = ([int(one[n : n + 2], 16) for n in (1, 3, 5)] for one in ORDER[first : first + 2])
        mixed = (round(a + (b - a) * (place - first)) for a, b in zip(*ends, strict=True))
        found.append("#" + "".join(f"{part:02X}" for part in mixed))
    return found


def colour(value: Any) -> str | None:
    """The color assigned to a text or to a number (a rank, a GPU); None for unknown texts."""
    if isinstance(value, int):
        return SEQUENCE[value % len(SEQUENCE)]
    return COLOURS.get(value)
