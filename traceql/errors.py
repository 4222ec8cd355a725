"""Every error that traceql raises on purpose. A message is one line and names the next step."""


class TraceqlError(Exception):
    """Base of all errors whose message is meant for the user."""


class TraceNotFound(TraceqlError):
    """A path holds no trace."""


class TraceCorrupt(TraceqlError):
    """A file is not a trace, or only part of one."""


class NotATrace(TraceCorrupt):
    """A file is whole, but holds something else; in a folder of traces it may lie beside them."""


class EngineError(TraceqlError):
    """The trace processor could not start, or rejected its input."""


class LossyLoad(TraceqlError):
    """The trace processor dropped or changed something that the file holds."""


class RankConflict(TraceqlError):
    """Two files claim the same rank."""


class DatabaseError(TraceqlError):
    """A database cannot be read or written."""


class QueryNotFound(TraceqlError):
    """No canned query has this name."""


class QueryInvalid(TraceqlError):
    """A query file's head, its parameters or its SQL is wrong."""


class ModelConfigInvalid(TraceqlError):
    """A model configuration cannot be read, or describes no model."""


class RulesInvalid(TraceqlError):
    """A file of classification rules cannot be used."""
