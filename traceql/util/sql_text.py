"""Texts and names as parts of SQL, where a statement takes no parameters."""


def literal(text: object) -> str:
    """A text or a path as a literal of SQL, with its quotes."""
    return "'" + str(text).replace("'", "''") + "'"


def identifier(name: str) -> str:
    """The name of a table or column in SQL, with its quotes."""
    return '"' + name.replace('"', '""') + '"'
