"""The kinds of drills."""

from drills.case import Kind


def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    from drills.kinds.attacks import SERVER, SQL
    from drills.kinds.run_directories import RUN_DIRECTORY
    from drills.kinds.tables import MODEL, RULES
    from drills.kinds.traces import GZIP, JSON, NATIVE
    from drills.kinds.writing import KILL, NO_SPACE, PARALLEL

    found = (GZIP, JSON, NATIVE, RULES, MODEL, RUN_DIRECTORY, KILL, NO_SPACE, PARALLEL, SQL, SERVER)
    return {kind.name: kind for kind in found}
