"""traceql experiment peaks import"""

from pathlib import Path
from shlex import quote

import click

from traceql.cli.console import print_text
from traceql.util.printable import one_line, printable

_INPUT = click.Path(path_type=Path, readable=False)
_DEFAULT_BUFFER_MIB = 512  # of nvbandwidth 0.8


@click.command("import")
@click.argument("files", nargs=-1, required=True, type=_INPUT, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="The file to write, which may be the peaks.json among the FILEs.",
)
@click.option(
    "--buffer-mib",
    type=click.IntRange(1, 2**20),
    default=_DEFAULT_BUFFER_MIB,
    show_default=True,
    help="The --bufferSize of nvbandwidth, which its files do not tell.",
)
def command(files: tuple[Path, ...], output: Path, buffer_mib: int) -> None:
    """Make a peaks.json of files of nccl-tests and nvbandwidth.

    FILE is what all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf or
    sendrecv_perf wrote with -J, or what nvbandwidth printed with -j. One FILE may be a peaks.json:
    the others are added to what it has.

    Example: traceql experiment peaks import all_reduce.json nvbandwidth.json -o peaks.json
    """
    from datetime import UTC, datetime

    from traceql.plan.limits.imported import imported, write_imported

    found = imported(files, buffer_mib=buffer_mib, now=datetime.now(UTC))
    write_imported(output, found.document)
    for sentence in found.left_out:
        print_text(one_line(f"left out: {sentence}"), hanging="  ", err=True)
    counts = ", ".join(
        f"{len(found.document.get(key, []))} {title}"
        for key, title in (
            ("products", "products"),
            ("memory", "memory tests"),
            ("collectives", "collectives and copies between GPUs"),
            ("host_copies", "copies of the host"),
        )
        if found.document.get(key)
    )
    click.echo(printable(f"wrote {output}, {found.document['device_name']}: {counts}"))
    click.echo(printable(f"All of it: traceql experiment peaks show {quote(str(output))}"))
