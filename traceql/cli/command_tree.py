"""The tree of commands, whose modules are imported only when a command is called."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True)
class Subcommand:
    """Where a command is, as module:attribute; its line and its section in `--help`."""

    location: str
    summary: str
    section: str


class CommandGroup(click.Group):
    """A group that imports nothing for `--help`: some commands need packages of an extra."""

    def __init__(self, *args: Any, subcommands: Mapping[str, Subcommand], **more: Any) -> None:
        super().__init__(*args, **more)
        self._subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._subcommands)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self._subcommands:
            return None
        module, attribute = self._subcommands[name].location.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self._subcommands))
        for section in dict.fromkeys(one.section for one in self._subcommands.values()):
            with formatter.section(section):
                formatter.write_dl(
                    (name.ljust(width), one.summary)
                    for name, one in self._subcommands.items()
                    if one.section == section
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self._subcommands and not args[0].startswith("-"):
            from traceql.util.text import suggestion

            hint = suggestion(args[0], self._subcommands) or f"see {ctx.command_path} --help"
            ctx.fail(f"there is no command '{args[0]}'; {hint}")
        return super().resolve_command(ctx, args)


_SECTIONS = {
    "Look": {
        "load": ("load:load", "Load traces, folders of ranks or run directories into DuckDB."),
        "info": ("info:info", "Show what ran, the diagnosis, and whether the checks hold."),
        "run": ("query:run", "Run a query."),
        "sql": ("query:sql", "Run a read-only SQL statement."),
        "queries": ("query:queries", "List the queries, or describe one."),
        "report": ("report:report", "Write a self-contained HTML report."),
        "ui": ("perfetto:ui", "Open a run in Perfetto, or two runs on one time axis."),
    },
    "Compare": {
        "diff": ("diff:diff", "Compare two runs, or repeats of each, and test the differences."),
        "gate": ("gate:gate", "Fail CI on a performance regression: exit status 0, 1 or 3."),
        "history": ("history:history", "Plot metrics over runs and detect regressions."),
        "baseline": ("gate:baseline", "Save the metrics of runs as a baseline for gate and diff."),
    },
    "Record": {
        "capture": ("capture.cli:command", "Record vLLM with torch.profiler into a run directory."),
        "experiment": (
            "command_tree:experiment",
            "Run a measurement plan on vLLM; measure GPU peaks.",
        ),
    },
    "Plan": {
        "advise": ("advise:advise", "Recommend a parallel layout."),
    },
    "Many runs": {
        "lake": ("command_tree:lake", "Store many runs as Parquet and query across them."),
    },
    "More": {
        "demo": ("info:demo", "Load the bundled four-GPU trace and show where the time went."),
        "cut": ("load:cut", "Extract part of a run into a smaller database."),
        "export": ("perfetto:export", "Export a database to another format."),
        "mcp": ("report:mcp", "Run an MCP server: findings, queries and SQL for an assistant."),
    },
}


def _subcommands(
    sections: Mapping[str, Mapping[str, tuple[str, str]]],
) -> dict[str, Subcommand]:
    return {
        name: Subcommand(
            where if where.startswith("capture.") else f"traceql.cli.{where}", summary, section
        )
        for section, commands in sections.items()
        for name, (where, summary) in commands.items()
    }


SUBCOMMANDS = _subcommands(_SECTIONS)

_LAKE = {
    "add": ("lake:add", "Add runs: databases, or anything that traceql load accepts."),
    "run": ("lake:run", "Run a query across the runs, or on each run."),
    "sql": ("lake:sql", "Run a SELECT on the tables of all runs."),
    "check": ("lake:check", "Check that every file is present and unchanged."),
    "compact": ("lake:compact", "Merge small files into larger ones."),
    "remove": ("lake:remove", "Remove runs."),
}
_EXPERIMENT = {
    "run": ("capture.cli.experiment:command", "Run a measurement plan, with repeats; resumable."),
    "load": ("experiment:load", "Load the results of experiments into one DuckDB file."),
    "show": ("experiment:show", "Show the answer, the points and the failures; run queries."),
    "report": ("experiment:report", "Write a self-contained HTML report with all curves."),
    "peaks": ("command_tree:peaks", "Measure, import or show the peaks of the GPUs."),
}
_PEAKS = {
    "measure": ("capture.cli.peaks:command", "Measure GEMM, memory and collective peaks."),
    "import": ("peaks:import_", "Convert results of nccl-tests and nvbandwidth to peaks.json."),
    "show": ("peaks:show", "Show a peaks.json, with bandwidths and fits."),
}


@click.command(cls=CommandGroup, subcommands=_subcommands({"Commands": _LAKE}))
def lake() -> None:
    """Store many runs as Parquet files in one folder and query across them."""


@click.command(cls=CommandGroup, subcommands=_subcommands({"Commands": _EXPERIMENT}))
@click.pass_context
def experiment(ctx: click.Context) -> None:
    """Measure vLLM by a plan: latency curves, scaling, and the peaks of the GPUs."""
    ctx.obj = weight_bytes  # for `run`, whose package must not import traceql


@click.command(cls=CommandGroup, subcommands=_subcommands({"Commands": _PEAKS}))
def peaks() -> None:
    """Peaks of this machine: GEMM, memory, links and collectives.

    They are stored in peaks.json. traceql load uses the peaks.json of a run directory, or the file
    given with --peaks.
    """


def weight_bytes(config: Mapping[str, Any], *, tp: int, pp: int, dp: int, ep: bool) -> float | None:
    """Lower bound of the bytes of weights on the fullest GPU; None for an unknown model."""
    from traceql.errors import UnknownModel
    from traceql.plan.advise.layouts import Layout, described, least_weight_bytes

    try:
        model = described("the model", config)
    except UnknownModel:
        return None
    return least_weight_bytes(model, Layout(tp, pp, dp, ep))
