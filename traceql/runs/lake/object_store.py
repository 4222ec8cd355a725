"""A lake in an object store such as S3, by way of fsspec.

There are no locks. Writers share no file, and what no run names is removed only when it is a day
old, so that nobody can be writing it any more.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb

from traceql.errors import LakeError
from traceql.util.sql_text import literal

_SETTLED = timedelta(days=1)
_BLOCK = 2**20
_EXTRA = "pip install 'traceql[s3]' for s3://, or the package of fsspec for another protocol"


class ObjectStore:
    """See `Store`."""

    def __init__(self, url: str) -> None:
        self.place = url.rstrip("/")
        try:
            from fsspec.core import url_to_fs

            self._files, root = url_to_fs(self.place, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise LakeError(f"{url} needs a package: {_EXTRA} ({error})") from None
        self._root = str(root).rstrip("/")

    def names(self, folder: str) -> list[str]:
        found = self._files.find(self._path(folder))
        return sorted(str(one).removeprefix(f"{self._root}/") for one in found)

    def read(self, name: str) -> bytes:
        return bytes(self._files.cat_file(self._path(name)))

    def size(self, name: str) -> int | None:
        try:
            return int(self._files.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    def sha256(self, name: str) -> str:
        digest = hashlib.sha256()
        with self._files.open(self._path(name), "rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

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

    def confine(self, con: duckdb.DuckDBPyConnection) -> None:
        self.connect(con)
        root = self.url("").rstrip("/")
        con.execute(f"SET allowed_directories = [{literal(f'{root}/')}]")
        con.execute("SET enable_external_access = false")
        con.execute("SET allowed_configs = ['search_path']")
        con.execute("SET lock_configuration = true")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}".rstrip("/")
