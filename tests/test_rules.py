"""The kernel rules: each rule against its own example, known names, and real traces."""

import csv
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from traceql.analysis.classification.rules import read_rules
from traceql.analysis.layers.kernel_text import symbols
from traceql.errors import RulesInvalid

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "traceql" / "analysis" / "classification" / "kernels.csv"
SIGNS = ROOT / "traceql" / "sql" / "tables" / "quantization_pattern.csv"
TRACES = ROOT.parent / "shared" / "traces"
# 154 MB of JSON each, with the kernels of the other traces of the same model.
TOO_LARGE = "qwen3-8b-tp2-graph-serving"

CATEGORIES = {
    *("gemm", "attention", "kv_cache", "norm", "rope", "activation", "moe", "collective"),
    *("elementwise", "sampling", "input_prep", "memcpy", "memset", "graph", "other"),
}
# What each name is was decided by reading the kernel, not by running the rules. Names are whole, or
# whole up to the parameter list.
with (Path(__file__).parent / "data" / "kernel_names.csv").open(
    encoding="utf-8", newline=""
) as file:
    NAMES = [(row["what"], row["name"], row["expected"]) for row in csv.DictReader(file)]
CATEGORY_OF = [(name, expected) for what, name, expected in NAMES if what == "category"]
SYMBOL_OF = [(name, expected) for what, name, expected in NAMES if what == "symbol"]


class Rule(NamedTuple):
    priority: int
    pattern: str
    category: str
    example: str
    note: str


class Match(NamedTuple):
    priority: int | None
    category: str


@cache
def rules() -> tuple[Rule, ...]:
    with RULES.open(encoding="utf-8", newline="") as file:
        return tuple(Rule(int(row.pop("priority")), **row) for row in csv.DictReader(file))


@cache
def rule_table() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute(
        """
        CREATE TABLE rule AS
        SELECT priority::INTEGER AS priority, pattern, category
        FROM READ_CSV(?, header = true, all_varchar = true, delim = ',', quote = '"', escape = '"')
        """,
        [str(RULES)],
    )
    return con


def classified(names: Iterable[str]) -> dict[str, Match]:
    """What the rules make of each name: the lowest priority that matches wins."""
    query = """
        SELECT name, MIN(priority), COALESCE(ARG_MIN(category, priority), 'other')
        FROM (SELECT DISTINCT UNNEST(?::VARCHAR[]) AS name)
        LEFT JOIN rule ON REGEXP_MATCHES(name, pattern)
        GROUP BY name
    """
    rows = rule_table().execute(query, [list(names)]).fetchall()
    return {name: Match(priority, category) for name, priority, category in rows}


@cache
def known() -> dict[str, Match]:
    names = [name for _, name, _ in NAMES]
    return classified(names + [rule.example for rule in rules()])


def symbol_of(name: str) -> str | None:
    """The first symbol of the name's category whose pattern matches the name."""
    query = "SELECT REGEXP_MATCHES(?, ?)"
    of_category = [one for one in symbols() if one.category == known()[name].category]
    matches = (
        one.name
        for one in of_category
        if rule_table().execute(query, [name, one.pattern]).fetchone() == (True,)
    )
    return next(matches, None)


def test_priorities_are_unique_and_ascending() -> None:
    priorities = [rule.priority for rule in rules()]
    assert priorities == sorted(set(priorities))


def test_categories_are_those_of_the_contract() -> None:
    assert {rule.category for rule in rules()} <= CATEGORIES


def test_every_rule_is_complete() -> None:
    assert [rule for rule in rules() if not all(rule)] == []


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule.priority))
def test_example_resolves_to_its_own_rule(rule: Rule) -> None:
    assert known()[rule.example] == Match(rule.priority, rule.category)


@pytest.mark.parametrize(("name", "category"), CATEGORY_OF)
def test_known_kernel_has_its_category(name: str, category: str) -> None:
    assert known()[name].category == category


@pytest.mark.parametrize(("name", "symbol"), SYMBOL_OF)
def test_known_kernel_has_its_symbol(name: str, symbol: str) -> None:
    assert symbol_of(name) == symbol


@pytest.mark.parametrize("text", ["hello\n", "priority,pattern\n", "\n", ""])
def test_a_file_without_the_header_is_no_file_of_rules(text: str, tmp_path: Path) -> None:
    file = tmp_path / "h.txt"
    file.write_text(text)
    with pytest.raises(RulesInvalid) as error:
        list(read_rules(file))
    assert str(error.value) == (
        f"{file}: the first line must name the columns priority,pattern,category"
    )


def test_a_header_without_rules_is_a_file_of_no_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules.csv"
    file.write_text("priority,pattern,category\n")
    assert list(read_rules(file)) == []


def trace_files() -> list[Path]:
    """One rank of each run, but both ends of a pipeline: other ranks run the same kernels."""
    return [
        path
        for path in sorted(TRACES.rglob("*.json.gz"))
        if TOO_LARGE not in path.parts
        and ("rank" not in path.name or "rank0" in path.name or "pp2" in path.parent.name)
    ]


@cache
def kernel_us(path: Path) -> Counter[str]:
    """Summed duration, us, by kernel name; copies and fills under their kind."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    total: Counter[str] = Counter()
    for event in events:
        kind = str(event.get("cat", "")).lower()
        if kind == "kernel":
            total[event["name"]] += event["dur"]
        elif kind in ("gpu_memcpy", "gpu_memset"):
            total[kind] += event["dur"]
    return total


@cache
def trace_categories() -> dict[str, Match]:
    return classified({name for path in trace_files() for name in kernel_us(path)})


def category_us(path: Path) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for name, duration_us in kernel_us(path).items():
        is_kind = name in ("gpu_memcpy", "gpu_memset")
        total[name if is_kind else trace_categories()[name].category] += duration_us
    return total


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here")
@pytest.mark.parametrize("path", trace_files(), ids=lambda path: str(path.relative_to(TRACES)))
def test_hardly_any_gpu_time_of_a_real_trace_is_other(path: Path) -> None:
    categories = category_us(path)
    limit = 0.05 if "third-party" in path.parts else 0.01
    assert categories.get("other", 0) < limit * sum(categories.values())


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here")
@pytest.mark.parametrize(
    ("path", "collective_ms"),
    [
        ("qwen3-8b-tp1-graph/rank0.pt.trace.json.gz", 0),
        ("qwen3-32b-tp4-graph-nccl/rank0.pt.trace.json.gz", 36.9),
        ("qwen3-30b-a3b-tp4-ep-graph/dp0_pp0_tp0_dcp0_ep0_rank0.pt.trace.json.gz", 70.2),
        ("third-party/tracelens/mi300x-resnet-training.json.gz", 71.5),
    ],
)
def test_collectives_of_a_real_trace_add_up(path: str, collective_ms: float) -> None:
    measured = category_us(TRACES / path).get("collective", 0.0) / 1000
    assert measured == pytest.approx(collective_ms, abs=0.05)


def signs() -> list[dict[str, str]]:
    with SIGNS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("sign", signs(), ids=lambda sign: sign["pattern"])
def test_each_sign_of_quantization_matches_its_example(sign: dict[str, str]) -> None:
    matches = "SELECT regexp_matches($example, $pattern)"
    said = {name: sign[name] for name in ("example", "pattern")}
    assert duckdb.execute(matches, said).fetchall() == [(True,)]


WIDE = [
    *("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "nvjet_sm90_tst_64x8", "FlashAttnFwdSm90<"),
    *("fused_add_rms_norm_kernel<", "unquantized_gemm_silu", "Cijk_", "splitKreduce_kernel"),
    *("sm90_xmma_gemm_bf16bf16",),
]


@pytest.mark.parametrize("part", WIDE)
def test_kernels_for_wide_numbers_are_no_sign_of_quantization(part: str) -> None:
    name = next(name for _, name, _ in NAMES if part in name)
    matching = [
        sign["pattern"]
        for sign in signs()
        if duckdb.execute("SELECT regexp_matches(?, ?)", [name, sign["pattern"]]).fetchall()[0][0]
    ]
    assert matching == []
