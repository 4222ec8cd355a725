"""Executes notebooks and keeps their outputs in them, which code hosts then show.

python notebooks/execute.py [NOTEBOOK...] [-o FOLDER]    # all of this folder; in place without -o
"""

from argparse import ArgumentParser
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

FOLDER = Path(__file__).resolve().parent
_SECONDS = 300  # of one cell


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, and without what differs between two executions.

    It is reached without a network.
    """
    notebook = nbformat.read(path, as_version=4)
    described = notebook.metadata.copy()
    config = Config(KernelManager={"transport": "ipc"})
    with TemporaryDirectory() as folder, chdir(folder):  # the sockets are there too
        NotebookClient(notebook, config=config, timeout=_SECONDS, record_timing=False).execute()
    notebook.metadata = described
    return notebook


def main() -> None:
    parser = ArgumentParser(description="Executes notebooks and keeps their outputs in them.")
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(FOLDER.glob("*.ipynb")))
    parser.add_argument("-o", "--output", type=Path, help="folder to write into instead")
    given = parser.parse_args()
    for path in given.notebooks:
        target = given.output / path.name if given.output else path
        nbformat.write(executed(path), target)
        print(f"wrote {target}")


if __name__ == "__main__":
    main()
