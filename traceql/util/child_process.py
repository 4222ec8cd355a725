"""What a process does that another one has started with multiprocessing."""

import os
from multiprocessing import parent_process
from threading import Thread


def end_with_parent() -> None:
    """Ends this process at once when the one that started it ends, even if that was killed."""
    Thread(target=_wait_and_end, daemon=True).start()


def _wait_and_end() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
