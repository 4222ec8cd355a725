"""The link that limits a communicator, from the GPUs' names and what run.json says of the host."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
import traces
from shared_files import shared_file
from traces import all_reduce

import traceql
from traceql.sql.execute import drop_derived

pytestmark = pytest.mark.slow

Link = tuple[str | None, float | None]  # its name and peak, GB/s

_BRIDGED_PAIRS = [["X", "NV6", "SYS", "SYS"], ["NV6", "X", "SYS", "SYS"],
                  ["SYS", "SYS", "X", "NV6"], ["SYS", "SYS", "NV6", "X"]]  # fmt: skip
_NDR = {"name": "mlx5_0", "link_layer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"}
_ROCE = {"name": "mlx5_0", "link_layer": "Ethernet", "rate": "100 Gb/sec (4X EDR)"}


def matrix(cells: list[list[str]]) -> str:
    """As `nvidia-smi topo -m` draws it, with a network adapter behind the GPUs."""
    names = [f"GPU{n}" for n in range(len(cells))]
    head = "\t\x1b[4m" + "\t".join([*names, "NIC0", "CPU Affinity"]) + "\x1b[0m"
    lines = [
        "\t".join([name, *(f" {c} " for c in row), "NODE", "0-63"])
        for name, row in zip(names, cells, strict=True)
    ]
    return "\n".join(
        [head, *lines, "NIC0\t" + "NODE\t" * len(cells) + " X ", "", "  NV#  = NVLinks"]
    )


def all_pairs(relation: str, gpus: int = 4) -> str:
    return matrix([["X" if a == b else relation for b in range(gpus)] for a in range(gpus)])


def recorded(
    folder: Path,
    device: str,
    groups: Sequence[Sequence[int]],
    *,
    gbps: float = 40,
    hosts: Sequence[str] = "aaaa",
    **facts: Any,
) -> Path:
    """Ranks that sum 64 MiB within their groups, and what run.json says of their machine."""
    count = 1 + max(rank for group in groups for rank in group)
    size = 2**26
    for rank in range(count):
        events = [
            all_reduce(
                ts=100_000 * n + 10_000 * k, ranks=group,
                dur=size * 2 * (len(group) - 1) / len(group) / gbps / 1000,
                **{"In msg nelems": size // 2},
            )
            for n, group in enumerate(groups)
            if rank in group
            for k in range(5)
        ]  # fmt: skip
        traces.write(
            folder / "traces" / f"rank{rank}.json", *events,
            deviceProperties=[{"id": 0, "name": device}],
            distributedInfo={"rank": rank, "world_size": count},
        )  # fmt: skip
    ranks = [
        {"rank": n, "host": hosts[n], "device_uuid": f"GPU-{n}", "trace": f"traces/rank{n}.json"}
        for n in range(count)
    ]
    document = {
        "schema_version": 1, "status": "complete", "parallel": {"world_size": count},
        "gpus": [{"index": n, "uuid": f"GPU-{n}"} for n in range(4)], "ranks": ranks, **facts,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(document))
    return traceql.load(folder, folder / "run.duckdb").database


def elsewhere(database: Path, folder: Path, device: str, **facts: Any) -> traceql.Trace:
    """The same run on another GPU, with more facts in run.json: faster than loading it again."""
    copy = Path(shutil.copy(database, folder / "elsewhere.duckdb"))
    with duckdb.connect(copy) as con:
        con.execute("SET search_path = 'main,internal,reference'")
        drop_derived(con)
        con.execute("UPDATE trace SET device_name = ?", [device])
        change = "UPDATE run_file SET document = json_merge_patch(document, ?)"
        con.execute(change, [json.dumps(facts)])
    return traceql.open(copy)


def recorded_once(name: str, groups: Sequence[Sequence[int]], hosts: Sequence[str]) -> Path:
    """The database of a run that all test processes share."""

    def make(path: Path) -> None:
        recorded(path.with_suffix(""), "Some GPU", groups, hosts=hosts).rename(path)

    return shared_file(f"{name}.duckdb", make)


@pytest.fixture
def two_gpus() -> Path:
    return recorded_once("two_gpus", [[0, 1]], "aa")


def links(trace: traceql.Trace) -> dict[str, Link]:
    rows = trace.select(
        "FROM communicator_link INNER JOIN communicator USING (communicator_id)"
    ).rows()
    assert all(row["source"].startswith("unknown") == (row["peak_gbps"] is None) for row in rows)
    return {row["group_ranks"]: (row["link"], row["peak_gbps"]) for row in rows}


@pytest.mark.parametrize(
    ("device", "topology", "expected"),
    [
        # 32 GT/s x 16 lanes / 8 bits, 128 of 130 of them data: 63 GB/s; half of that for Gen4.
        ("NVIDIA H200", all_pairs("SYS"), ("PCIe 5.0 x16", 63)),
        ("NVIDIA A100-SXM4-80GB", all_pairs("NODE"), ("PCIe 4.0 x16", 31.5)),
        # 18, 12 and 12 NVLinks of 25 GB/s in one direction.
        ("NVIDIA H100 80GB HBM3", None, ("NVLink 4", 450)),
        ("NVIDIA A100-SXM4-80GB", all_pairs("NV12"), ("NVLink 3", 300)),
        ("NVIDIA H100 NVL", all_pairs("NV12"), ("NVLink 4 bridge", 300)),
        # Each pair of a mesh of eight has one link, of 64 GB/s in one direction.
        ("AMD Instinct MI300X", None, ("Infinity Fabric 4", 64)),
        # Cards may have a bridge or none.
        ("NVIDIA H100 NVL", None, (None, None)),
        ("NVIDIA L4", all_pairs("NV4"), (None, None)),
    ],
)
def test_inside_a_host_the_link_follows_from_device_and_topology(
    device: str, topology: str | None, expected: Link, two_gpus: Path, tmp_path: Path
) -> None:
    with elsewhere(two_gpus, tmp_path, device, topology=topology) as trace:
        assert links(trace) == {"0 1": expected}
        (row,) = trace.run("comm.bandwidth").rows()
        assert (row["link"], row["peak_gbps"]) == expected
        assert row["peak_pct"] == (expected[1] and pytest.approx(100 * 40 / expected[1], rel=0.01))


def test_each_group_has_the_link_of_its_own_gpus(tmp_path: Path) -> None:
    """Two bridged pairs: a group across them goes over PCIe."""
    groups = [[0, 1], [2, 3], [0, 2], [0, 1, 2, 3]]
    database = recorded(tmp_path, "NVIDIA H100 NVL", groups, topology=matrix(_BRIDGED_PAIRS))
    with traceql.open(database) as trace:
        bridge, pcie = ("NVLink 4 bridge", 300), ("PCIe 5.0 x16", 63)
        assert links(trace) == {"0 1": bridge, "2 3": bridge, "0 2": pcie, "0 1 2 3": pcie}


@pytest.mark.parametrize(
    ("adapters", "across", "all_four"),
    [
        ([_NDR] * 4, ("InfiniBand NDR", 50), ("InfiniBand NDR", 100)),
        ([_ROCE], ("RoCE 100 Gb/s", 12.5), ("RoCE 100 Gb/s", 12.5)),
        ([], (None, None), (None, None)),
    ],
)
def test_between_hosts_the_network_bounds_a_group(
    adapters: list[dict[str, str]], across: Link, all_four: Link, tmp_path: Path
) -> None:
    """Two ranks on each host; of four GPUs each has its share of the host's adapters."""
    two_hosts = recorded_once("two_hosts", [[0, 1], [0, 2], [0, 1, 2, 3]], "aabb")
    about = {"topology": all_pairs("NV18"), "network_adapters": adapters}
    with elsewhere(two_hosts, tmp_path, "NVIDIA H200", **about) as trace:
        assert links(trace) == {"0 1": ("NVLink 4", 450), "0 2": across, "0 1 2 3": all_four}
