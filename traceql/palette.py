"""One colour for each thing, wherever it is drawn.

Built from Okabe and Ito's palette and Tol's, which colour-blind readers can tell apart; what
matters most in an inference trace has the most distinct hues, nothing-happens is grey.
"""

SEQUENCE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#882255"]
_IDLE = "#BBBBBB"

COLOURS = {
    # categories of kernels
    "gemm": "#0072B2",
    "attention": "#E69F00",
    "collective": "#D55E00",
    "moe": "#009E73",
    "norm": "#56B4E9",
    "rope": "#117733",
    "activation": "#CC79A7",
    "kv_cache": "#F0E442",
    "elementwise": "#999933",
    "sampling": "#882255",
    "input_prep": "#44AA99",
    "memcpy": "#AA4499",
    "memset": "#DDCC77",
    "other": "#000000",
    # classes of time
    "computing": "#0072B2",
    "exposed_comm": "#D55E00",
    "exposed_copy": "#AA4499",
    "idle": _IDLE,
    "overlap": "#009E73",
    # phases
    "prefill": "#E69F00",
    "decode": "#0072B2",
    "mixed": "#009E73",
    # causes of idle time
    "sync": "#AA4499",
    "host": "#D55E00",
    "dependency": "#009E73",
    "launch": "#56B4E9",
    "unknown": _IDLE,
}
