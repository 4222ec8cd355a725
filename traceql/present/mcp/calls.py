"""Runs one call of a tool after the other, and ends what takes too long or is cancelled."""

from typing import Any

import anyio
import anyio.to_thread

from traceql.errors import QueryInvalid
from traceql.present.mcp.answers import Arguments
from traceql.present.mcp.databases import Databases
from traceql.present.mcp.tools import Tool

MOST_SECONDS = 60  # of one call
_BETWEEN_INTERRUPTS_S = 0.05


class Calls:
    """The calls of one client, in turn: DuckDB uses all processors for each."""

    def __init__(self, databases: Databases, *, most_seconds: float = MOST_SECONDS) -> None:
        self._databases = databases
        self._most_seconds = most_seconds
        self._turn = anyio.Lock()

    async def answer(self, tool: Tool, arguments: Arguments) -> Any:
        """The tool's answer.

        Raises:
            QueryInvalid: it takes too long.
        """
        answers: list[Any] = []
        errors: list[Exception] = []
        done = anyio.Event()

        def run() -> None:
            try:
                answers.append(tool.answer(self._databases, arguments))
            except Exception as error:  # raised below, where no group of tasks wraps it
                errors.append(error)

        async def in_a_thread() -> None:
            with anyio.CancelScope(shield=True):  # a thread ends by itself, or when interrupted
                await anyio.to_thread.run_sync(run)
            done.set()

        async with self._turn, anyio.create_task_group() as tasks:
            tasks.start_soon(in_a_thread)
            try:
                with anyio.move_on_after(self._most_seconds) as limit:
                    await done.wait()
            finally:
                await self._interrupt_until(done)
        if errors and limit.cancelled_caught:
            raise QueryInvalid(
                f"ended after {self._most_seconds:g} s; ask for less: one rank, step or phase"
            )
        if errors:
            raise errors[0]
        return answers[0]

    async def _interrupt_until(self, done: anyio.Event) -> None:
        """Interrupts again and again, because a call may run several statements."""
        with anyio.CancelScope(shield=True):
            while not done.is_set():
                self._databases.interrupt()
                with anyio.move_on_after(_BETWEEN_INTERRUPTS_S):
                    await done.wait()
