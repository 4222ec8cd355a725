"""Names in a lake.

    lake.json                                   says that the folder is a lake
    manifest/DIGEST.json                        one run: its facts and its files
    table=kernel/run=RUN/SHA256.parquet         the rows of one run
    table=kernel/SHA256.parquet                 the rows of several runs, with a column run

Files of tables are named after their content, so that a new version never replaces an old one that
a manifest still names.
"""

import re

MARK = "lake.json"
MANIFEST = "manifest"
LOCKS = "locks"
TABLE = "table="
RUN = "run="
_DIGEST_LETTERS = 16  # of the name of a manifest row
_SHORT_DIGEST = 8  # of the name of a run
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


def row_name(digest: str) -> str:
    """The manifest row of the run with this digest."""
    return f"{MANIFEST}/{digest[:_DIGEST_LETTERS]}.json"


def run_name(name: str, digest: str) -> str:
    """The name of a run: its source in letters that any file system takes, and its digest."""
    plain = _NOT_IN_NAMES.sub("-", name).strip("-.")[:_LONGEST_NAME] or "run"
    return f"{plain}-{digest[:_SHORT_DIGEST]}"


def lock_key(digest: str) -> str:
    """The lock that whoever changes the run with this digest holds."""
    return digest[:_SHORT_DIGEST]


def lock_key_of_run(run: str) -> str:
    """The same, from the name of the run."""
    return run[-_SHORT_DIGEST:]


def run_folder(table: str, run: str) -> str:
    """The folder of the files that have the rows of one run alone."""
    return f"{TABLE}{table}/{RUN}{run}"


def own_name(table: str, run: str, sha256: str) -> str:
    """The file with the rows of one run."""
    return f"{run_folder(table, run)}/{sha256[:_DIGEST_LETTERS]}.parquet"


def shared_name(table: str, sha256: str) -> str:
    """A file with the rows of several runs."""
    return f"{TABLE}{table}/{sha256[:_DIGEST_LETTERS]}.parquet"


def is_shared(name: str) -> bool:
    """Whether a file of a table has the rows of several runs."""
    return f"/{RUN}" not in name


def run_of(name: str) -> str | None:
    """The run whose rows a file has; None if it has those of several."""
    return None if is_shared(name) else name.split("/")[1].removeprefix(RUN)
