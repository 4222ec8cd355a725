"""All errors that traceql raises on purpose. A message is one line and names the next step."""


def reason(error: Exception) -> str:
    """What an error of other code says, in one line: its class, and the first line of its text."""
    first, *_ = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


class TraceqlError(Exception):
    """Base class of all errors whose message is meant for the user."""


class TraceNotFound(TraceqlError):
    """There is no trace at a path."""


class TraceCorrupt(TraceqlError):
    """A file is damaged, incomplete or not a trace."""


class NotATrace(TraceCorrupt):
    """A file is intact but holds something else; in a folder of traces it is skipped."""


class ProfileSkipped(TraceCorrupt):
    """A file of Nsight Compute cannot be read here; beside traces it is skipped."""


class EngineError(TraceqlError):
    """The trace processor could not start, or rejected its input."""


class LossyLoad(TraceqlError):
    """The trace processor dropped or changed data of the file."""


class RankConflict(TraceqlError):
    """Two files claim the same rank."""


class DatabaseError(TraceqlError):
    """A database cannot be opened, read or written."""


class DatabaseReplaced(DatabaseError):
    """A load has written another version of a database that is open."""


class QueryNotFound(TraceqlError):
    """There is no query of this name, or no such folder of queries."""


class QueryInvalid(TraceqlError):
    """The head, the parameters or the SQL of a query is wrong, or its chart cannot be drawn."""


class DefinitionInvalid(TraceqlError):
    """A file that defines a table is wrong, or does not fit the others."""


class ModelConfigInvalid(TraceqlError):
    """A model configuration cannot be read or does not describe a model."""


class RulesInvalid(TraceqlError):
    """A file of classification rules cannot be used."""


class PeaksInvalid(TraceqlError):
    """A file of peaks cannot be used."""


class NotMeasured(TraceqlError):
    """A duration is asked for that peaks.json does not have."""


class CriterionInvalid(TraceqlError):
    """A criterion of a gate, or the file that has it, is wrong."""


class GoalInvalid(TraceqlError):
    """A goal of advice cannot be understood."""


class UnknownModel(TraceqlError):
    """There is no such model configuration, or the sizes of its model type are not known."""


class UnknownGpu(TraceqlError):
    """No list of peaks has a GPU of this name."""


class LakeError(TraceqlError):
    """A folder is not a lake, or a file of the lake is missing or damaged."""


class RunNotFound(TraceqlError):
    """There is no such run in a lake, or no run to which a condition applies."""
