"""Each thing that a newcomer adds is one new file in one place. For readers: test_readers.py."""

from pathlib import Path
from typing import Any

import duckdb
import pytest
import traces
from derived import answer, database, rows

import traceql
from traceql.analysis.classification.rules import write_rules
from traceql.analysis.findings import catalog as finding_catalog
from traceql.analysis.findings.catalog import evidence_command
from traceql.analysis.layers import families
from traceql.errors import DefinitionInvalid, QueryInvalid
from traceql.sql import execute
from traceql.sql.definition import definition
from traceql.sql.registry import TABLE_FOLDERS, definitions

TABLE = """-- One row per rank: how many kernels it ran.
-- @scope  rank
-- @needs  kernel_class, slice
-- @column rank     BIGINT  Rank.
-- @column kernels  BIGINT  Kernels.
SELECT slice.rank, COUNT(*) AS kernels
FROM slice
INNER JOIN kernel_class USING (name)
GROUP BY slice.rank
"""
PYTHON_TABLE = '''# One row per rank: twice its kernels.
# @schema main
# @scope  rank
# @needs  toy_count
# @column rank   BIGINT  Rank.
# @column twice  BIGINT  Twice as many.

"""Doubles."""

import pyarrow as pa

from traceql.sql.definition import declared_schema


def rows(con):
    found = con.execute("SELECT rank, kernels FROM toy_count").fetchall()
    listed = [{"rank": rank, "twice": 2 * kernels} for rank, kernels in found]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
'''
QUERY = """-- One row per rank: how many kernels it ran.
-- @column rank     BIGINT  Rank.
-- @column kernels  BIGINT  Kernels.
-- @chart  none
SELECT rank, COUNT(*) AS kernels FROM kernel GROUP BY rank
"""
FINDING = """-- Kernels ran.
-- @title      toy finding
-- @notable    2
-- @severe     100
-- @unit       kernels
-- @threshold  least_ns = 5  Shorter kernels do not count.
-- @evidence   kernels.top rank=rank category='gemm'
-- @advice     Nothing.
-- @source     own
-- @needs      finding_rule, kernel
SELECT
    COUNT(*) AS value,
    NULL::BIGINT AS cost_ns,
    format('{} kernels ran.', COUNT(*)) AS finding,
    MIN(kernel.rank) AS rank
FROM kernel
CROSS JOIN (SELECT thresholds FROM finding_rule WHERE finding = 'toy finding') AS rule
WHERE kernel.dur >= rule.thresholds['least_ns']
"""
# Layers that a gather begins, so that no other family has them.
FAMILY = """
model_types = ["toy"]
attention = ["latent_attention"]
feed_forward = ["mlp_between_norms"]
"""


@pytest.mark.slow
def test_a_new_table_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_count.sql").write_text(TABLE)
    (tmp_path / "toy_twice.py").write_text(PYTHON_TABLE)
    monkeypatch.setattr("traceql.sql.registry.TABLE_FOLDERS", [*TABLE_FOLDERS, tmp_path])
    trace = traces.write(tmp_path / "rank0.json", *(traces.kernel(ts=n, dur=1) for n in (0, 5, 9)))
    with traceql.open(traceql.load(trace, tmp_path / "x.duckdb").database) as opened:
        assert opened.sql("FROM internal.toy_count").rows() == [{"rank": 0, "kernels": 3}]
        assert opened.sql("FROM toy_twice").rows() == [{"rank": 0, "twice": 6}]
        comments = "SELECT comment FROM duckdb_columns() WHERE table_name = 'toy_twice'"
        assert [r["comment"] for r in opened.sql(comments)] == ["Rank.", "Twice as many."]


@pytest.mark.slow
def test_a_new_query_is_one_new_file(tmp_path: Path) -> None:
    (tmp_path / "toy.count.sql").write_text(QUERY)
    trace = traces.write(tmp_path / "rank0.json", traces.kernel(ts=0, dur=1))
    loaded = traceql.load(trace, tmp_path / "x.duckdb").database
    with traceql.open(loaded, queries=[tmp_path]) as opened:
        assert opened.run("toy.count").rows() == [{"rank": 0, "kernels": 1}]


def test_a_users_own_query_does_not_disturb_the_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "comm.stragglers.sql").write_text(QUERY)  # without the parameters of evidence
    monkeypatch.setenv("TRACEQL_QUERIES", str(tmp_path))
    assert rows(database(), "SELECT COUNT(*) > 5 FROM finding_rule") == [(True,)]


@pytest.mark.slow
def test_a_new_finding_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.sql").write_text(FINDING)
    folders = [*finding_catalog.FINDING_FOLDERS, tmp_path]
    monkeypatch.setattr("traceql.analysis.findings.catalog.FINDING_FOLDERS", folders)
    con = database(*(traces.kernel(ts=n, dur=d) for n, d in ((0, 4), (10, 1), (20, 0.001))))
    found = [row for row in answer(con, "overview.findings") if row[2] == "toy finding"]
    # rank_order, severity, kind, finding, saving_ns, saving_pct, assumption, advice, query,
    # parameters, value, unit, cost_ns, and rank, ts and dur of an example
    assert [row[1:] for row in found] == [
        ("notable", "toy finding", "2 kernels ran.", None, None, None, "Nothing.", "kernels.top",
         {"rank": "0", "category": "gemm"}, 2.0, "kernels", None, None, None, None)
    ]  # fmt: skip


@pytest.mark.slow
def test_a_new_layer_family_is_one_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for family in families.FAMILIES.glob("*.toml"):
        (tmp_path / family.name).write_text(family.read_text())
    (tmp_path / "toy.toml").write_text(FAMILY)
    monkeypatch.setattr("traceql.analysis.layers.families.FAMILIES", tmp_path)
    names = {
        "embed": "void at::native::vectorized_gather_kernel<16, long>",
        "norm": "void vllm::rms_norm_kernel<__nv_bfloat16>",
        "gemm": "nvjet_sm90_tst_64x8",
        "rope": "void vllm::rotary_embedding_kernel<__nv_bfloat16>",
        "kv_write": "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>",
        "attention": "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128> >",
        "act": "void vllm::act_and_mul_kernel<__nv_bfloat16>",
    }
    layer = [
        ("norm", "input_norm"), ("gemm", "qkv_proj"), ("norm", "qk_norm"), ("gemm", "qkv_proj"),
        ("rope", "rope"), ("kv_write", "kv_write"), ("gemm", "kv_b_proj"),
        ("attention", "attention"), ("gemm", "o_proj"), ("norm", "post_attn_norm"),
        ("norm", "pre_mlp_norm"), ("gemm", "gate_up_proj"), ("act", "act"), ("gemm", "down_proj"),
        ("norm", "post_mlp_norm"),
    ]  # fmt: skip
    one = [("embed", "embed"), *layer * 3, ("norm", "final_norm"), ("gemm", "lm_head")]
    passes = [names[kernel] for kernel, _ in one * 2]
    count = len(one)
    events = [
        event
        for n, name in enumerate(passes)
        for event in (
            *([traces.step(ts=1000 * n, dur=5, generation=(1, 1))] if n % count == 0 else []),
            traces.launch(ts=1000 * n + 1, correlation=n + 1),
            traces.kernel(name, ts=1000 * n + 10, dur=20, correlation=n + 1),
        )
    ]
    con = database(*events)
    assert rows(con, "SELECT family, layers FROM rank_model") == [("toy", 3)]
    found = [role for (role,) in rows(con, "SELECT role FROM kernel ORDER BY ts")]
    assert found == [role for _, role in one * 2]


# --- mistakes in new tables ----------------------------------------------------------------------


HEAD = "-- One row.\n-- @scope  run\n"
UNLESS = f"{HEAD}-- @needs  slice, trace\n-- @empty_unless"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"toy.sql": f"{HEAD}-- @needs  nothing\nSELECT 1"}, "no file defines 'nothing'"),
        ({"kernel.sql": f"{HEAD}SELECT 1"}, "define the same table"),
        (
            {"toy.sql": f"{UNLESS} slice, trace\nSELECT 1"},
            "'slice, trace' is not one table of",
        ),
        ({"toy.sql": f"{UNLESS} slice s\nSELECT 1"}, "'slice s' is not one table of @needs"),
        ({"toy.sql": f"{UNLESS} kernel\nSELECT 1"}, "'kernel' is not one table of @needs"),
        (
            {"toy.sql": f"{UNLESS} slice\n-- @kind  macro\nSELECT 1"},
            "@empty_unless is for tables, not for a macro",
        ),
        ({"toy.sql": "-- One row.\n-- @scope  all\nSELECT 1"}, "@scope is 'all', not one of rank,"),
        ({"toy.sql": "-- One row.\nSELECT 1"}, "@scope is '', not one of rank, run"),
        ({"toy.sql": f"{HEAD}-- @kind  tabel\nSELECT 1"}, "@kind is 'tabel', not one of source,"),
        ({"toy.sql": f"{HEAD}-- @colum  a\nSELECT 1"}, "unknown tag in '-- @colum  a'"),
        ({"toy.sql": "SELECT 1"}, "must begin with a comment"),
        ({"toy.sql": f"{HEAD}SELECT nothing FROM trace"}, "cannot make table toy .*toy.sql"),
        (
            {
                "one.sql": f"{HEAD}-- @needs  two\nFROM two",
                "two.sql": f"{HEAD}-- @needs  one\nFROM one",
            },
            "in a circle: (one -> two -> one|two -> one -> two)",
        ),
    ],
)
def test_a_wrong_table_is_told_in_one_line(
    files: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    for name, text in files.items():
        (tables / name).write_text(text)
    monkeypatch.setattr("traceql.sql.registry.TABLE_FOLDERS", [*TABLE_FOLDERS, tables])
    trace = traces.write(tmp_path / "rank0.json", traces.kernel(ts=0, dur=1))
    with pytest.raises(traceql.TraceqlError, match=message) as error:
        traceql.load(trace, tmp_path / "x.duckdb", complete=True)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "x.duckdb").exists()


def made_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The rows of a table that is the only one."""
    monkeypatch.setattr(execute, "definitions", lambda: {path.stem: definition(path)})
    with duckdb.connect() as con:
        execute.create_sources(con)
        execute.make_macros(con, [path.stem])
        execute.make_tables(con, [path.stem])
        return con.execute(f"FROM {path.stem}").fetchall()


PYTHON_HEAD = "# One row.\n# @scope  run\n"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (
            "toy.py",
            f"{PYTHON_HEAD}def rows(con) 1",
            r"cannot import .*toy.py: SyntaxError: .* line 3",
        ),
        ("toy.py", f"{PYTHON_HEAD}import nothing", "cannot import .*toy.py: .* named 'nothing'"),
        ("toy.py", f"{PYTHON_HEAD}x = 1", "toy.py: it has no function rows"),
        ("toy.py", f"{PYTHON_HEAD}def rows(con): {{}}['x']", "toy.py.: KeyError: 'x' in line 3"),
        ("toy.py", f"{PYTHON_HEAD}def rows(con): pass", "toy.py: rows.* returned NoneType, not a"),
        ("toy.py", f"{PYTHON_HEAD}def rows(con): con.sql('SELECT a')", "toy.py.: Binder Error"),
        ("toy.sql", f"{HEAD}SELECT 1; SELECT 2", 'toy.sql.: Parser Error: .* near ";"'),
        (
            "toy.sql",
            f"{HEAD}-- @schema main\n-- @column b  INTEGER  B.\nSELECT 1 AS a",
            'toy.sql.: .* name "b"',
        ),
        (
            "toy.sql",
            f"{HEAD}-- @kind  source\nSELECT 1",
            "toy.sql: kind source is a CREATE, not a S",
        ),
        ("toy.sql", f"{HEAD}-- @kind  macro\nSELECT 1", "is a CREATE, not a SELECT"),
        ("toy.sql", f"{HEAD}-- @kind  source\nCREATE TABLE b (c INTEGER)", "toy.sql.: .* name toy"),
        ("toy.sql", f"{HEAD}SELECT '\xe9'", "cannot read .*toy.sql: 'utf-8'"),
    ],
)
def test_a_table_that_cannot_be_made_is_told_in_one_line(
    file: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).write_text(text, encoding="latin-1")
    with pytest.raises((DefinitionInvalid, QueryInvalid), match=message) as error:
        made_alone(tmp_path / file, monkeypatch)
    assert "\n" not in str(error.value)


def test_a_folder_with_the_name_of_a_table_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy.sql").mkdir()
    monkeypatch.setattr("traceql.sql.registry.TABLE_FOLDERS", [*TABLE_FOLDERS, tmp_path])
    with pytest.raises(QueryInvalid, match=r"cannot read .*toy\.sql"):
        definitions()


def test_one_semicolon_ends_a_select(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.sql").write_text(f"{HEAD}SELECT 1 AS a;\n")
    assert made_alone(tmp_path / "toy.sql", monkeypatch) == [(1,)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-- @evidence   kernels.top rank=rank category='gemm'\n", "", "it has no @evidence"),
        ("toy finding", "it's", "its title has a quotation mark"),
        ("-- @title      toy finding", "-- @title      late rank", "another finding has the title"),
        ("-- @notable    2", "-- @notable    two", "'@notable two' is not a number"),
        ("least_ns = 5", "least_ns 5", "is not 'name = number"),
        ("least_ns = 5", "least_ns = 1.2.3", "'@threshold least_ns = 1.2.3' is not a number"),
        ("rank=rank", "rank", "is not 'name=value'"),
        ("rank=rank", "rank=", "is not 'name=value'"),
        ("Nothing.", "\xe9", "cannot read .*toy.sql: 'utf-8'"),
    ],
)
def test_a_wrong_finding_is_told_in_one_line(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in FINDING
    (tmp_path / "toy.sql").write_text(FINDING.replace(old, new), encoding="latin-1")
    folders = [*finding_catalog.FINDING_FOLDERS, tmp_path]
    monkeypatch.setattr("traceql.analysis.findings.catalog.FINDING_FOLDERS", folders)
    with pytest.raises(QueryInvalid, match=message):
        finding_catalog.finding_kinds()


def new_database() -> duckdb.DuckDBPyConnection:
    """The source tables, with the rules that load always writes."""
    con = duckdb.connect()
    execute.create_sources(con)
    write_rules(con, [])
    return con


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "kernels.top",
            "kernels.topp",
            r"toy\.sql: wrong @evidence: no query 'kernels\.topp'; did",
        ),
        (
            "rank=rank",
            "rnk=rank",
            r"toy\.sql: wrong @evidence: kernels\.top has no parameter 'rnk'",
        ),
        ("kernel.dur", "kernel.size", r"cannot make finding toy .*toy\.sql.: .* named \"size\""),
        ("rank=rank", "rank=other", r"make finding toy .*toy\.sql.: .* \"other\" not found"),
        ("AS value", "AS number", r"make finding toy .*toy\.sql.: .* \"value\" in .* not found"),
        ("'least_ns']", "'least_ns'", r"make finding toy .*toy\.sql.: Parser Error: "),
        (
            "FROM kernel",
            "FROM other AS kernel",
            r"make finding toy .*toy\.sql.: .* other does not exist",
        ),
        ("kernel\n", "kernels\n", r"toy\.sql: no file defines 'kernels', which it needs"),
    ],
)
def test_a_finding_that_cannot_be_made_is_told_in_one_line(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in FINDING
    (tmp_path / "toy.sql").write_text(FINDING.replace(old, new))
    folders = [*finding_catalog.FINDING_FOLDERS, tmp_path]
    monkeypatch.setattr("traceql.analysis.findings.catalog.FINDING_FOLDERS", folders)
    with pytest.raises((DefinitionInvalid, QueryInvalid), match=message) as error:
        execute.make_tables(new_database(), ["finding"])
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_wrong_part_of_findings_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in finding_catalog.PARTS.glob("*.sql"):
        (tmp_path / part.name).write_text(part.read_text())
    (tmp_path / "slower_role.sql").write_text("-- One row.\nSELECT nothing")
    monkeypatch.setattr(finding_catalog, "PARTS", tmp_path)
    with pytest.raises(DefinitionInvalid, match=r"make finding slower_role .*slower_role\.sql"):
        execute.make_tables(new_database(), ["finding"])


@pytest.mark.slow
def test_a_value_of_evidence_may_have_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy.sql").write_text(FINDING.replace("'gemm'", "'a b'"))
    folders = [*finding_catalog.FINDING_FOLDERS, tmp_path]
    monkeypatch.setattr("traceql.analysis.findings.catalog.FINDING_FOLDERS", folders)
    con = database(*(traces.kernel(ts=n, dur=1) for n in (0, 10)))
    named = rows(con, "SELECT query, parameters FROM finding WHERE kind = 'toy finding'")
    assert named == [("kernels.top", {"rank": "0", "category": "a b"})]
    finding = dict(zip(("query", "parameters"), named[0], strict=True))
    expected = "traceql run kernels.top x.duckdb --rank 0 --category 'a b'"
    assert evidence_command(finding, "x.duckdb") == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"latent_attention"', '"latent"', r"'latent' is not in parts\.toml"),
        ('["latent_attention"]', "[]", "it has no parts"),
        ('["mlp_between_norms"]', '"mlp"', "'feed_forward' is not a list of texts"),
        ("attention = [", "attentions = [", "'attention'"),
        ("attention = [", "extra = 1\nattention = [", "unknown key 'extra'"),
        ("model_types =", "model_types", "Expected '='"),
        ('["toy"]', '"toy"', "'model_types' is not a list of texts"),
        ('["toy"]', "[1]", "'model_types' is not a list of texts"),
        ('["toy"]', '["qwen3"]', "qwen3.toml and toy.toml have the same model type 'qwen3'"),
    ],
)
def test_a_wrong_layer_family_is_told_in_one_line(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in FAMILY
    (tmp_path / "qwen3.toml").write_text((families.FAMILIES / "qwen3.toml").read_text())
    (tmp_path / "toy.toml").write_text(FAMILY.replace(old, new))
    monkeypatch.setattr("traceql.analysis.layers.families.FAMILIES", tmp_path)
    with pytest.raises(DefinitionInvalid, match=message) as error:
        families.families()
    assert "toy.toml" in str(error.value)
    assert "\n" not in str(error.value)
