"""Which rows of the tables of a database an excerpt has; docs/scale.md explains them.

A table without a rule is made from the tables of the excerpt, when something first needs it.
"""

from collections.abc import Mapping
from enum import StrEnum


class Rule(StrEnum):
    """Which rows of a table an excerpt has.

    WHOLE: all, because they are facts of the run, and do not become fewer with its time.
    BEGUN: the events that begin in a window, with their whole durations.
    CLIPPED: the intervals of a device that are in a window, cut at its edges, so that they still
        cover the time without overlap.
    KERNEL: what is said of kernels that the excerpt has.
    OPERATION: on all ranks, if one of them has a kernel of the operation in the excerpt.
    STEP: what is said of steps that the excerpt has whole.
    OWN: each such table has a query of its own (see `rows`).
    """

    WHOLE = "whole"
    BEGUN = "begun"
    CLIPPED = "clipped"
    KERNEL = "kernel"
    OPERATION = "operation"
    STEP = "step"
    OWN = "own"


_TABLES = {
    Rule.WHOLE: """
        clock communicator cost_formula data_sheet_peak event_kind file_count finding_rule
        fixed_cost graph_node kernel_class kernel_key kernel_metric kernel_rule layer_kind
        layout link load_check measured_collective measured_device model_config model_part
        model_size parsed_kernel_name peak peak_file profile_check profile_file profiled_launch
        profiled_work quantization_pattern rank_model rank_model_part recorder run run_file
        run_iteration symbol trace traceql_database track transfer_curve user_peak
    """,
    Rule.BEGUN: "counter instant memory",
    Rule.CLIPPED: "device_timeline device_state gap",
    Rule.KERNEL: """
        activity collective kernel_match kernel_module launch_origin operation_plane
        profiled_kernel role_call
    """,
    Rule.OPERATION: "collective_arrival",
    Rule.STEP: "aligned_step cost request_step step step_time step_tokens",
    Rule.OWN: "flow kernel launch ledger lost_time module request slice telemetry telemetry_sample",
}
RULES: Mapping[str, Rule] = {
    table: rule for rule, tables in _TABLES.items() for table in tables.split()
}
