"""The storage of a lake, a folder or an object store, and the names of its files."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from traceql.errors import LakeError
from traceql.util.files import draft_folder
from traceql.util.locks import locked
from traceql.util.text import literal

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
    """The name of a run: its source in portable characters, and its digest."""
    plain = _NOT_IN_NAMES.sub("-", name).strip("-.")[:_LONGEST_NAME] or "run"
    return f"{plain}-{digest[:_SHORT_DIGEST]}"


def lock_key(digest: str) -> str:
    """The lock for changes of the run with this digest."""
    return digest[:_SHORT_DIGEST]


def lock_key_of_run(run: str) -> str:
    """The same, from the name of the run."""
    return run[-_SHORT_DIGEST:]


def run_folder(table: str, run: str) -> str:
    return f"{TABLE}{table}/{RUN}{run}"


def own_name(table: str, run: str, sha256: str) -> str:
    return f"{run_folder(table, run)}/{sha256[:_DIGEST_LETTERS]}.parquet"


def shared_name(table: str, sha256: str) -> str:
    return f"{TABLE}{table}/{sha256[:_DIGEST_LETTERS]}.parquet"


def run_of(name: str) -> str | None:
    """The run whose rows a file has; None if it has those of several."""
    return name.split("/")[1].removeprefix(RUN) if f"/{RUN}" in name else None


class Store:
    """The files of a lake in a folder; `place` is its path or URL, for messages."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._root = Path(os.path.realpath(folder))

    def names(self, folder: str) -> list[str]:
        """The files in a folder at any depth, sorted; none if there is no such folder."""
        return sorted(
            Path(at, file).relative_to(self._root).as_posix()
            for at, _, files in os.walk(self._root / folder)
            for file in files
        )

    def read(self, name: str) -> bytes:
        """The bytes of a file; raises OSError."""
        return (self._root / name).read_bytes()

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if there is none."""
        try:
            return (self._root / name).stat().st_size
        except FileNotFoundError:
            return None

    def sha256(self, name: str) -> str:
        return file_sha256(self._root / name)

    def put(self, draft: Path, name: str) -> None:
        """Moves a complete local file into the lake; it is durable before manifest rows name it."""
        target = self._root / name
        _sync(draft)
        while True:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                draft.replace(target)
                break
            except FileNotFoundError:  # another process removed the empty folder meanwhile
                draft.stat()
        if os.name == "posix":  # Windows cannot open folders
            _sync(target.parent)

    def remove(self, name: str) -> None:
        """Removes a file if it exists, and its folder if that is empty then."""
        path = self._root / name
        path.unlink(missing_ok=True)
        if path.parent != self._root:
            with suppress(OSError):  # it is not empty
                path.parent.rmdir()

    def is_settled(self, _name: str) -> bool:
        """Whether no writer can be using a file that no run names, while its lock is held here."""
        return True  # a writer would hold the lock

    def url(self, name: str) -> str:
        return str(self._root / name)

    def drafts(self) -> AbstractContextManager[Path]:
        """A temporary local folder for files to put."""
        self._root.mkdir(parents=True, exist_ok=True)
        return draft_folder(self._root)

    def locked(self, key: str) -> AbstractContextManager[None]:
        """Holds a lock between processes, and waits for it."""
        (self._root / LOCKS).mkdir(parents=True, exist_ok=True)
        return locked(self._root / LOCKS / key)

    def is_locked(self, key: str) -> bool:
        """Whether another process or thread holds the lock."""
        from filelock import FileLock, Timeout

        path = self._root / LOCKS / key
        if not path.exists():
            return False
        try:
            with FileLock(path, preserve_lock_file=True, blocking=False):
                return False
        except Timeout:
            return True

    def connect(self, con: duckdb.DuckDBPyConnection) -> None:
        """Lets a connection read the files of this lake."""

    def confine(self, con: duckdb.DuckDBPyConnection) -> None:
        """Restricts a connection to the files of this lake, permanently."""
        self.connect(con)
        folder = literal(f"{self.url('').rstrip('/')}/")
        con.execute(f"SET allowed_directories = [{folder}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET allowed_configs = ['search_path']")
        con.execute("SET lock_configuration = true")


def put_bytes(store: Store, name: str, content: bytes) -> None:
    """Puts a small file, replacing a file of the same name."""
    with store.drafts() as folder:
        draft = folder / "small"
        draft.write_bytes(content)
        store.put(draft, name)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_SETTLED = timedelta(days=1)
_EXTRA = "pip install 'traceql[s3]' for s3://, or the package of fsspec for another protocol"


class ObjectStore(Store):
    """The files of a lake at a URL; objects have no locks."""

    def __init__(self, url: str) -> None:
        self.place = url.rstrip("/")
        try:
            from fsspec.core import url_to_fs

            self._files, root = url_to_fs(self.place, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise LakeError(f"{url} needs a package: {_EXTRA} ({error})") from None
        self._top = str(root).rstrip("/")

    def names(self, folder: str) -> list[str]:
        found = self._files.find(self._path(folder))
        return sorted(str(one).removeprefix(f"{self._top}/") for one in found)

    def read(self, name: str) -> bytes:
        return bytes(self._files.cat_file(self._path(name)))

    def size(self, name: str) -> int | None:
        try:
            return int(self._files.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    def sha256(self, name: str) -> str:
        with self._files.open(self._path(name), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def put(self, draft: Path, name: str) -> None:
        self._files.put_file(str(draft), self._path(name))

    def remove(self, name: str) -> None:
        if self.size(name) is not None:
            self._files.rm_file(self._path(name))

    def is_settled(self, name: str) -> bool:
        try:
            modified: datetime = self._files.modified(self._path(name))
        except FileNotFoundError:
            return False
        aware = modified if modified.tzinfo else modified.replace(tzinfo=UTC)
        return datetime.now(UTC) - aware > _SETTLED

    def url(self, name: str) -> str:
        return str(self._files.unstrip_protocol(self._path(name)))

    @contextmanager
    def drafts(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="traceql-") as folder:
            yield Path(folder)

    def locked(self, _key: str) -> AbstractContextManager[None]:
        return nullcontext()

    def is_locked(self, _key: str) -> bool:
        return False

    def connect(self, con: duckdb.DuckDBPyConnection) -> None:
        con.register_filesystem(self._files)

    def _path(self, name: str) -> str:
        return f"{self._top}/{name}".rstrip("/")


def store_at(lake: str | Path) -> Store:
    """The storage of a lake in this folder or at this URL; LakeError if that needs a package."""
    return ObjectStore(str(lake)) if is_url(lake) else Store(Path(lake))


def is_url(lake: str | Path) -> bool:
    return "://" in str(lake)


def absolute_uri(lake: str) -> str:
    """The lake by absolute path or URL, for processes in other folders."""
    return lake if is_url(lake) else str(Path(lake).absolute())
