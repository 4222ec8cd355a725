"""Each thing that a newcomer adds is one new file in one place. For readers: test_readers.py."""

from pathlib import Path

import duckdb
import pytest
import traces
from derived import database, rows
from forward_passes import run_of

import traceql
from traceql.analysis.classification.rules import write_rules
from traceql.analysis.diagnosis.catalog import CAUSE_FOLDERS
from traceql.analysis.layers import roles
from traceql.errors import DefinitionInvalid, QueryInvalid
from traceql.sql import execute
from traceql.sql.registry import TABLE_FOLDERS

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
CAUSE = """-- Kernels ran.
-- @title   toy cause
-- @group   kernels
-- @query   kernels.top rank=rank category='gemm'
-- @record  Nothing.
-- @source  own
-- @needs   time_unit
SELECT
    COUNT(*) > 0 AS is_confirmed,
    'no kernel ran' AS reason,
    'A step computes for {saving}' AS headline,
    [format('{} kinds of kernel ran.', COUNT(*)), NULL] AS evidence,
    'Run fewer.' AS remedy,
    list({'unit': unit, 'ns': 2 * ns}) AS claims,
    MIN(time_unit.rank) AS rank
FROM time_unit
WHERE part = 'computing'
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


def test_a_users_own_query_does_not_disturb_the_diagnosis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "time.lost.sql").write_text(QUERY)  # without the parameters of causes
    monkeypatch.setenv("TRACEQL_QUERIES", str(tmp_path))
    assert rows(database(), "SELECT COUNT(*) > 3 FROM cause") == [(True,)]


def add_cause(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "toy.sql").write_text(text)
    folders = [*CAUSE_FOLDERS, folder]
    monkeypatch.setattr("traceql.analysis.diagnosis.catalog.CAUSE_FOLDERS", folders)
    monkeypatch.setattr("traceql.sql.registry.CAUSE_FOLDERS", folders)


@pytest.mark.slow
def test_a_new_cause_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot save more than the time of the kernels: 5 of 21 us."""
    add_cause(CAUSE, tmp_path, monkeypatch)
    con = database(*(traces.kernel(ts=n, dur=d) for n, d in ((0, 4), (20, 1))))
    found = rows(
        con,
        "SELECT severity, title, headline, evidence, remedy, saving_ns, query, parameters "
        "FROM finding WHERE cause = 'toy'",
    )
    assert found == [
        ("severe", "toy cause", "A step computes for 0.01 ms", ["1 kinds of kernel ran."],
         "Run fewer.", 5_000, "kernels.top", {"rank": "0", "category": "gemm"})
    ]  # fmt: skip


@pytest.mark.slow
def test_a_new_layer_family_is_one_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for family in roles.FAMILIES.glob("*.toml"):
        (tmp_path / family.name).write_text(family.read_text())
    (tmp_path / "toy.toml").write_text(FAMILY)
    monkeypatch.setattr("traceql.analysis.layers.roles.FAMILIES", tmp_path)
    layer = [  # kernels in letters, with their roles
        ("n", "input_norm"), ("g", "qkv_proj"), ("n", "qk_norm"), ("g", "qkv_proj"), ("r", "rope"),
        ("k", "kv_write"), ("g", "kv_b_proj"), ("a", "attention"), ("g", "o_proj"),
        ("n", "post_attn_norm"), ("n", "pre_mlp_norm"), ("g", "gate_up_proj"), ("v", "act"),
        ("g", "down_proj"), ("n", "post_mlp_norm"),
    ]  # fmt: skip
    one = [("E", "embed"), *layer * 3, ("n", "final_norm"), ("g", "lm_head")]
    letters = "".join(letter for letter, _ in one)
    con = run_of(letters, letters)
    assert rows(con, "SELECT family, layers FROM rank_model") == [("toy", 3)]
    found = [role for (role,) in rows(con, "SELECT role FROM kernel ORDER BY ts")]
    assert found == [role for _, role in one * 2]


# --- mistakes in new tables ----------------------------------------------------------------------


HEAD = "-- One row.\n-- @scope  run\n"
PYTHON_HEAD = "# One row.\n# @scope  run\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"toy.sql": f"{HEAD}-- @needs  nothing\nSELECT 1"}, "no file defines 'nothing'"),
        ({"kernel.sql": f"{HEAD}SELECT 1"}, "define the same table"),
        (
            {"toy.sql": f"{HEAD}-- @needs  slice, trace\n-- @empty_unless kernel\nSELECT 1"},
            "'kernel' is not one table of @needs",
        ),
        ({"toy.sql": "-- One row.\n-- @scope  all\nSELECT 1"}, "@scope is 'all', not one of rank,"),
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
        ({"toy.py": f"{PYTHON_HEAD}def rows(con) 1"}, r"cannot import .*toy.py: SyntaxError: .* 3"),
        ({"toy.py": f"{PYTHON_HEAD}x = 1"}, "toy.py: it has no function rows"),
        (
            {"toy.py": f"{PYTHON_HEAD}def rows(con): {{}}['x']"},
            "toy.py.: KeyError: 'x' in line 3",
        ),
        (
            {"toy.py": f"{PYTHON_HEAD}def rows(con): pass"},
            "toy.py: rows.* returned NoneType, not a",
        ),
        ({"toy.sql": f"{HEAD}SELECT 1; SELECT 2"}, 'toy.sql.: Parser Error: .* near ";"'),
        (
            {"toy.sql": f"{HEAD}-- @schema main\n-- @column b  INTEGER  B.\nSELECT 1 AS a"},
            'toy.sql.: .* name "b"',
        ),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-- @query   kernels.top rank=rank category='gemm'\n", "", "it has no @query"),
        ("@group   kernels", "@group   odd", "@group is 'odd', not one of recording, host"),
        ("-- @source", "-- @most    dire\n-- @source", "@most is 'dire', not one of severe"),
        (
            "-- @source",
            "-- @after   nothing\n-- @source",
            "there is no cause .nothing.",
        ),
        ("-- @source", "-- @unless  toy\n-- @source", "in a circle: toy -> toy"),
        ("rank=rank", "rank=", "is not 'name=value'"),
        ("kernels.top", "kernels.topp", r"wrong @query: no query 'kernels\.topp'; did"),
        ("rank=rank", "rnk=rank", r"wrong @query: kernels\.top has no parameter 'rnk'"),
        (
            "2 * ns",
            "2 * size",
            r"cannot make scratch toy_cause .*toy\.sql.: .* column \"size\" not found",
        ),
        ("AS claims", "AS claims)", r"make scratch toy_cause .*toy\.sql.: Parser Error: "),
        ("@needs   time_unit", "@needs   kernels", r"toy\.sql: no file defines 'kernels', which"),
    ],
)
def test_a_wrong_cause_is_refused_in_one_line(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in CAUSE
    con = duckdb.connect()
    execute.create_sources(con)
    write_rules(con, [])
    add_cause(CAUSE.replace(old, new), tmp_path, monkeypatch)
    with pytest.raises((DefinitionInvalid, QueryInvalid), match=message) as error:
        execute.make_tables(con, ["cause", "finding"])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"latent_attention"', '"latent"', r"'latent' is not in parts\.toml"),
        ('["mlp_between_norms"]', '"mlp"', "'feed_forward' is not a list of texts"),
        ("attention = [", "extra = 1\nattention = [", "unknown key 'extra'"),
        ("model_types =", "model_types", "Expected '='"),
        ('["toy"]', '["qwen3"]', "qwen3.toml and toy.toml have the same model type 'qwen3'"),
    ],
)
def test_a_wrong_layer_family_is_refused_in_one_line(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old in FAMILY
    (tmp_path / "qwen3.toml").write_text((roles.FAMILIES / "qwen3.toml").read_text())
    (tmp_path / "toy.toml").write_text(FAMILY.replace(old, new))
    monkeypatch.setattr("traceql.analysis.layers.roles.FAMILIES", tmp_path)
    with pytest.raises(DefinitionInvalid, match=message) as error:
        roles.families()
    assert "toy.toml" in str(error.value)
    assert "\n" not in str(error.value)
