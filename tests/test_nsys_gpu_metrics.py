"""GPU metrics in exports of Nsight Systems: each GPU has its own, and its rank has them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from nsys_like import Row, kernel, write
from nsys_samples import read_export

_TYPE = 281479271677952  # of GPU 0, in a recording


def name(metric: int, text: str, gpu: int = 0) -> Row:
    about = {"typeId": _TYPE + gpu, "metricId": metric, "metricName": text}
    return Row("TARGET_INFO_GPU_METRICS", about)


def sample(ts: int, value: int, gpu: int = 0, metric: int = 0) -> Row:
    about = {"timestamp": ts, "typeId": _TYPE + gpu, "metricId": metric, "value": value}
    return Row("GPU_METRICS", about)


def device(gpu: int, cuda: int, pid: int) -> Row:
    return Row("TARGET_INFO_CUDA_DEVICE", {"gpuId": gpu, "cudaId": cuda, "pid": pid})


def ranks(folder: Path, *rows: Row, without: str = "") -> list[Mapping[str, pa.Table]]:
    path = write(folder / "run.sqlite", *rows, without=without)
    return [part.tables for part in read_export(path)]


def counters(tables: Mapping[str, pa.Table]) -> list[tuple[Any, ...]]:
    """Track, name, unit, time and value of each sample."""
    tracks = tables["track"]["process_name"].to_pylist()
    return [
        (tracks[row["track"]], row["name"], row["unit"], row["ts"], row["value"])
        for row in tables["counter"].to_pylist()
    ]


def remarks(tables: Mapping[str, pa.Table]) -> Sequence[tuple[Any, ...]]:
    return [(r["check_name"], r["value"], r["total"]) for r in tables["load_check"].to_pylist()]


_TWO_WORKERS = [
    kernel("gemm", ts=20, dur=5, pid=201),
    kernel("gemm", ts=20, dur=5, pid=202),  # both call their GPU device 0
    name(0, "SM Issue [Throughput %]", gpu=3),
    name(0, "SM Issue [Throughput %]", gpu=5),
    sample(10, 30, gpu=3),
    sample(10, 50, gpu=5),
    sample(20, 31, gpu=3),
]
_OF_3 = [
    ("GPU metrics of GPU 3", "SM Issue", "Throughput %", 10, 30),
    ("GPU metrics of GPU 3", "SM Issue", "Throughput %", 20, 31),
]
_OF_5 = [("GPU metrics of GPU 5", "SM Issue", "Throughput %", 10, 50)]


def test_samples_are_with_the_rank_that_ran_on_their_gpu(tmp_path: Path) -> None:
    first, second = ranks(tmp_path, *_TWO_WORKERS, device(5, 0, 201), device(3, 0, 202))
    assert (counters(first), counters(second)) == (_OF_5, _OF_3)
    assert (remarks(first), remarks(second)) == ([], [])
    events = [
        [row["events"] for row in tables["count"].to_pylist() if row["phase"] == "counter"]
        for tables in (first, second)
    ]
    assert events == [[1], [2]]


def test_samples_of_a_gpu_of_no_rank_have_a_track_of_their_own_and_are_told(tmp_path: Path) -> None:
    first, second = ranks(tmp_path, *_TWO_WORKERS, device(5, 0, 201))
    assert sorted(counters(first)) == sorted(_OF_3 + _OF_5)
    assert counters(second) == []
    assert remarks(first) == [("samples of GPUs of no rank", 2, 3)]
    (note,) = first["load_check"]["note"].to_pylist()
    assert "these GPUs: 3;" in note


def test_without_a_table_of_devices_those_of_one_process_are_told_by_its_gpus(
    tmp_path: Path,
) -> None:
    rows = [
        kernel("gemm", ts=20, dur=5, deviceId=0),
        kernel("gemm", ts=20, dur=5, deviceId=1),
        *(Row("TARGET_INFO_GPU", {"id": 5 - 2 * n, "cuDevice": n}) for n in (0, 1)),
        *_TWO_WORKERS[2:],
    ]
    first, second = ranks(tmp_path, *rows, without="TARGET_INFO_CUDA_DEVICE")
    assert (counters(first), counters(second)) == (_OF_5, _OF_3)


def test_two_metrics_of_one_name_stay_apart(tmp_path: Path) -> None:
    names = [name(metric, "SM Issue [Avg]") for metric in (0, 1)]
    samples = [sample(10, 30), sample(10, 40, metric=1), sample(10, 50, metric=2)]
    (tables,) = ranks(tmp_path, kernel(ts=20, dur=5), device(0, 0, 100), *names, *samples)
    assert [row[1:] for row in counters(tables)] == [
        ("SM Issue (0)", "Avg", 10, 30),
        ("SM Issue (1)", "Avg", 10, 40),
        ("metric 2", None, 10, 50),
    ]
