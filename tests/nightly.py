"""Which tests run at night alone: long matrices of what a few cases show by day."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

# Recordings of models on which each kind of damage is tried by day.
_BY_DAY = (
    *("deepseekv2-graph", "gemma2-eager", "gptoss-graph", "jamba-eager", "mamba2-graph"),
    *("qwen3moe_mixed-graph", "qwen3next-eager", "qwen3_spec-graph"),
)
# Runs on which queries are tried by day: of one rank, of several, of others' tools.
_RUNS = ("qwen3-8b-tp1-graph", "qwen3-32b-tp4-graph-nccl", "mi300x-qwen1.5")

# Tests of excerpts that compare each run with its parts.
_OF_WINDOWS = ("share_out", "_window", "slices_that", "parents_are", "whole_steps")


@dataclass(frozen=True)
class Rule:
    """Tests of a file that run at night.

    Attributes:
        names: parts of the names of tests; all tests of the file if there are none.
        but: parts of the ids of cases that run by day; tests without cases do, too.
    """

    file: str
    names: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    def applies(self, item: pytest.Item) -> bool:
        function, _, case = item.name.partition("[")
        if item.path.stem != self.file:
            return False
        if self.names and not any(name in function for name in self.names):
            return False
        return not self.but or (bool(case) and not any(kept in case for kept in self.but))


_DAMAGE = [
    Rule(
        "test_layers_damaged",
        ("one_damage", "begins_or_ends_anywhere", "layers_need_no_family"),
        but=_BY_DAY,
    ),
    Rule(
        "test_layers_damaged",
        ("one_pass_alone", "kernel_of_a_new_name"),
        but=_BY_DAY[:1],
    ),
    Rule("test_layers_of_models", but=_BY_DAY),
    Rule(
        "test_run_directories",
        ("damaged_line", "damaged_telemetry", "unreadable_metrics", "odd_computed_tokens"),
    ),
    Rule("test_run_directories", ("never_a_pattern", "is_not_guessed")),
    Rule("test_unpacking", ("far_too_much",)),
    Rule("test_streaming", ("recording",)),
    Rule("test_reports_mixed", ("many",)),
    Rule("test_parts", but=_RUNS[:1]),
    Rule("test_compiled", ("recordings_are_scanned_alike",)),
    Rule("test_large_output", ("cannot_be_written",), but=("arguments0", "arguments3")),
    Rule("test_nsys_recordings", ("both_forms_of",), but=("nccl-payloads",)),
    Rule(
        "test_reports_merged",
        ("the_same_merged",),
        but=("0-qwen3-8b-pp2-graph-stream", "1-qwen3-32b-tp4-graph-nccl-perfetto"),
    ),
    Rule("test_reports_merged", ("kind_of_label",), but=("perfetto", "sglang-stream")),
    Rule("test_cost_of_traces", ("configured_shapes",), but=("qwen3_fp8block", "qwen3moe")),
    Rule("test_nsys", ("environment_of_the_recorded",), but=("saxpy", "None")),
    Rule("test_compare_parts", ("simulated_repeats",)),
    Rule("test_history", ("noise_is_not_marked", "five_deviations")),
]
_KILLS = [
    Rule("test_bad_input", ("killed_load", "stopped_while_duckdb", "full_disk", "too_few_open")),
    Rule("test_reading_processes", ("process_that_is_killed", "load_that_is_killed")),
    Rule("test_executors", ("died", "dies_again", "too_long", "end_with_the_process")),
    Rule("test_lake", ("killed", "two_writers")),
    Rule("test_files", ("killed_load",)),
    Rule("test_capture_processes", ("hears_no_signal", "killed_engine", "shared_memory")),
    Rule(
        "test_experiment_runner",
        ("killed_experiment", "interrupted", "ended_are_measured", "never_starts"),
    ),
    Rule("test_mcp", ("take_too_long", "ends_with_its_input")),
    Rule("test_large_output", ("memory_does_not_grow",)),
    Rule("test_large_loads", ("with_little_memory",)),
]
_LAKE = [
    Rule("test_lake_on_ray"),
    Rule("test_experiment_ray"),
    Rule("test_lake_in_s3", but=("memory",)),
    Rule("test_lake", ("answers_as_the_database",), but=("compacted-qwen3-8b-tp1-graph",)),
    Rule("test_parted_runs"),
]
_QUERIES = [
    Rule(
        "test_queries",
        ("every_allowed_value", "can_be_drawn", "shows_columns", "filters_leave"),
        but=("1 rank",),
    ),
    Rule("test_terminal", ("no_line_is_wider", "keeps_to_the_width")),
    Rule("test_terminal", ("limit_of_zero",), but=("kernels.top",)),
    Rule("test_lossless", but=_RUNS),
    Rule("test_answers", but=_RUNS),
    Rule("test_excerpt", _OF_WINDOWS, but=(*_RUNS[:2], "ascend")),
    Rule("test_excerpt", ("every_query_and_table",), but=_RUNS[1:2]),
    Rule("test_excerpt", ("excerpt_of_an_excerpt",), but=_RUNS[1:2]),
    Rule("test_definitions", ("empty_without_what",), but=("run", "modules")),
    Rule("test_parts_of_time", but=_RUNS),
    Rule("test_step_time", but=_RUNS),
    Rule("test_host_flame", but=_RUNS),
    Rule("test_pftrace", but=_RUNS),
    Rule("test_diagnosis", ("keep_the_contract",), but=_RUNS),
    Rule("test_waterfall", ("of_a_real_run",), but=_RUNS),
    Rule("test_rules", ("real_trace",), but=_RUNS),
    Rule("test_experiment_answers", ("every_allowed_value",)),
    Rule("test_rocprof_agrees", but=("qwen3-8b-tp1-graph-rocpd", "mi300x-qwen1.5-pftrace")),
]
_DOCS = [
    Rule("test_docs", ("every_command_runs_after", "every_command_on_results", "measured_scaling")),
    Rule("test_docs", ("site_is_built",)),
    Rule("test_notebooks", ("without_a_network",)),
    Rule("test_gate_command", ("example_of_the_document", "example_workflow", "has_every_metric")),
    Rule("test_diff_command", ("example_of_the_document",)),
    Rule("test_report_page"),
    Rule("test_ui_page", ("offline_page_shows",)),
]
_VLLM = [
    Rule("test_capture_vllm"),
    Rule("test_experiment_vllm"),
    Rule("test_capture_peaks", ("run_on_a_cpu",)),
]
PARTS = {
    "damage": _DAMAGE,
    "kills": _KILLS,
    "lake": _LAKE,
    "queries": _QUERIES,
    "docs": _DOCS,
    "vllm": _VLLM,
}
_BIG = "qwen3-8b-tp2-graph-serving"  # 154 MB of JSON a rank
_ONE_OF_VLLM = "annotated_dense_model_names_its_layers"


def mark_nightly(items: list[pytest.Item]) -> None:
    """Marks the tests that run at night alone, each with its part."""
    for item in items:
        for part in _parts_of(item):
            item.add_marker(pytest.mark.nightly(part=part))


def _parts_of(item: pytest.Item) -> Iterator[str]:
    if _ONE_OF_VLLM in item.name:
        return
    for part, rules in PARTS.items():
        if any(rule.applies(item) for rule in rules) or (part == "queries" and _BIG in item.name):
            yield part
