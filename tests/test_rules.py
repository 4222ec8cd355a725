"""The kernel rules: each rule against its own example, known names, and real traces."""

import csv
import gzip
import json
from collections import Counter
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
    of_category = [one for one in symbols() if one.category == known()[name].category]
    return next((one.name for one in of_category if matches(name, one.pattern)), None)


def test_rules_are_complete_in_order_and_of_known_categories() -> None:
    priorities = [rule.priority for rule in rules()]
    assert priorities == sorted(set(priorities))
    assert {rule.category for rule in rules()} <= CATEGORIES
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


@pytest.mark.parametrize("text", ["priority,pattern\n", ""])
def test_a_file_without_the_header_is_no_file_of_rules(text: str, tmp_path: Path) -> None:
    file = tmp_path / "h.txt"
    file.write_text(text)
    with pytest.raises(RulesInvalid) as error:
        list(read_rules(file))
    assert str(error.value) == (
        f"{file}: the first line must name the columns priority,pattern,category"
    )


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
    """Summed duration, us, by kernel name."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    total: Counter[str] = Counter()
    for event in events:
        if str(event.get("cat", "")).lower() == "kernel":
            total[event["name"]] += event["dur"]
    return total


@cache
def trace_categories() -> dict[str, Match]:
    return classified({name for path in trace_files() for name in kernel_us(path)})


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here")
@pytest.mark.parametrize("path", trace_files(), ids=lambda path: str(path.relative_to(TRACES)))
def test_hardly_any_gpu_time_of_a_real_trace_is_other(path: Path) -> None:
    limit = 0.05 if "third-party" in path.parts else 0.01
    kernels = kernel_us(path)
    other = sum(us for name, us in kernels.items() if trace_categories()[name].category == "other")
    assert other < limit * kernels.total()


with SIGNS.open(newline="", encoding="utf-8") as file:
    OF_QUANTIZATION = [(row["pattern"], row["example"]) for row in csv.DictReader(file)]


def matches(name: str, pattern: str) -> bool:
    return duckdb.execute("SELECT regexp_matches(?, ?)", [name, pattern]).fetchone() == (True,)


@pytest.mark.parametrize(("pattern", "example"), OF_QUANTIZATION)
def test_each_sign_of_quantization_matches_its_example(pattern: str, example: str) -> None:
    assert matches(example, pattern)


WIDE = [
    *("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "nvjet_sm90_tst_64x8", "FlashAttnFwdSm90<"),
    *("fused_add_rms_norm_kernel<", "unquantized_gemm_silu", "Cijk_", "splitKreduce_kernel"),
    *("sm90_xmma_gemm_bf16bf16",),
]


@pytest.mark.parametrize("part", WIDE)
def test_kernels_for_wide_numbers_are_no_sign_of_quantization(part: str) -> None:
    name = next(name for _, name, _ in NAMES if part in name)
    assert [pattern for pattern, _ in OF_QUANTIZATION if matches(name, pattern)] == []
