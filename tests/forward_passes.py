"""Forward passes in letters, as events and as tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import traces
from derived import Tables, database, rows

CHECKS = Path(__file__).parent / "checks"  # statements without rows if layers and times add up
NAME = {  # a kernel of each symbol
    "n": "vllm::rms_norm_kernel",
    "g": "nvjet_sm90_tst_64x8",
    "s": "void cublasLt::splitKreduce_kernel<32>",
    "e": "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >",
    "q": "void vllm::scaled_fp8_quant_kernel_strided<x>",
    "E": "void at::native::vectorized_gather_kernel<16, long>",
    "r": "void vllm::rotary_embedding_kernel<x>",
    "k": "void vllm::reshape_and_cache_flash_kernel<x>",
    "a": "flash::FlashAttnFwdSm90",
    "c": "flash::FlashAttnFwdCombine",
    "v": "void vllm::act_and_mul_kernel<x>",
    "A": "void vllm::cross_device_reduce_1stage<x>",
    "F": "trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
    "G": "ncclDevKernel_AllGather_RING_LL",
    "R": "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
    "P": "ncclDevKernel_SendRecv",
    "D": "void deep_ep::intranode::dispatch<8>",
    "C": "void deep_ep::intranode::combine<8>",
    "T": "void vllm::moe::topkGating<8>",
    "L": "void vllm::moe::moe_align_block_size_kernel<int>",
    "X": "fused_moe_kernel",
    "U": "void vllm::moe::moe_sum_kernel<x>",
    "i": "_prepare_pos_seq_lens_kernel",
    "z": "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
    "at::native::ArgMaxOps<float> > >",
    "o": "mystery",
    "y": "Memcpy HtoD (Pinned -> Device)",
    "m": "Memset (Device)",
}  # fmt: skip
KIND = {"y": "gpu_memcpy", "m": "gpu_memset"}
LAYERS = 4
DENSE = "ngnrkagAngvgA"
EXPERTS = "ngnrkagngTLXvXU"
BEFORE, AFTER = "yiE", "nEgz"
KERNEL_US, EVERY_US = 4, 5


def whole(layer: str = DENSE, count: int = LAYERS) -> str:
    return BEFORE + layer * count + AFTER


def forward(
    letters: str,
    *,
    ts: float,
    stream: int = 7,
    first: int = 1,
    pieces: Sequence[int] = (),
    generation: tuple[int, int] = (1, 1),
    context: tuple[int, int] = (0, 0),
    annotated: bool = True,
    us: Sequence[float] | None = None,
) -> list[traces.Event]:
    """One step: a kernel every 5 us, launched one by one or, where `pieces` says, by graphs.

    Args:
        first: the first correlation; kernel number n has first + n, or that of its graph.
        pieces: numbers of the kernels that graph launches begin with; each is followed by the
            next, and kernels before the first are launched alone.
        us: how long each kernel takes, if not 4 us.
    """
    host = [traces.step(ts=ts, dur=len(letters), context=context, generation=generation)]
    events = host if annotated else []
    for n, letter in enumerate(letters):
        graph = max((piece for piece in pieces if piece <= n), default=None)
        correlation = first + (n if graph is None else graph)
        if graph is None or graph == n:
            name = "cudaLaunchKernel" if graph is None else "cudaGraphLaunch"
            events.append(traces.launch(ts=ts + n, dur=0.5, correlation=correlation, name=name))
        dur = KERNEL_US if us is None else us[n]
        cat = KIND.get(letter, "kernel")
        at = ts + 10 + EVERY_US * n
        where = {"stream": stream, "correlation": correlation}
        events.append(traces.kernel(NAME[letter], ts=at, dur=dur, cat=cat, **where))
    return events


def run_of(*passes: str, **options: Any) -> Tables:
    events = []
    for number, letters in enumerate(passes):
        events += forward(letters, ts=10_000 * number, first=1_000 * number + 1, **options)
    return database(*events)


def expected(letters: str, layer: str = DENSE, count: int = LAYERS) -> list[int | None]:
    inside = [n for n in range(count) for _ in layer]
    return [None] * len(BEFORE) + inside + [None] * (len(letters) - len(BEFORE) - len(inside))


def found_layers(con: Tables, where: str = "TRUE") -> list[int | None]:
    return [layer for (layer,) in rows(con, f"SELECT layer FROM kernel WHERE {where} ORDER BY ts")]


def failing(con: Tables) -> set[str]:
    """Files in CHECKS with rows; there is no file that the ledger could be compared with."""
    con.execute(
        "UPDATE ledger SET ok = NULL WHERE regexp_matches(check_name, '^(events|duration) ')"
    )
    return {c.stem for c in sorted(CHECKS.glob("*.sql")) if rows(con, c.read_text())}


def ledger(con: Tables, check: str) -> tuple[Any, ...]:
    (row,) = con.execute(
        "SELECT value, total, ok FROM ledger WHERE check_name = ?", [check]
    ).fetchall()
    return row
