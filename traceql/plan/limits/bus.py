"""How many bytes a collective moves over the links of a rank, for each byte of its buffer."""


def bus_factor(op: str, ranks: int) -> float:
    """The factor of nccl-tests (doc/PERFORMANCE.md) from algorithm to bus bandwidth."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0
