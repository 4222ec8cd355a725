"""What an enriched trace shows, from top to bottom; each kind has a query in tracks/."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

TRACKS = Path(__file__).with_name("tracks")


@dataclass(frozen=True)
class TrackKind:
    """Rows of a query that become slices, or samples of a counter, on the tracks they name."""

    query: str
    is_counter: bool = False
    group: str | None = None  # a group inside the rank's group; a viewer shows it collapsed

    @cached_property
    def sql(self) -> str:
        return (TRACKS / f"{self.query}.sql").read_text()


EXCERPT = TrackKind("excerpt")
IDLE = TrackKind("idle", is_counter=True)
KINDS = (
    TrackKind("findings"),
    TrackKind("steps"),
    TrackKind("layers"),
    TrackKind("roles"),
    TrackKind("communication"),
    IDLE,
    TrackKind("gaps", group="Idle gaps"),
    TrackKind("streams"),
    TrackKind("efficiency", is_counter=True, group="Counters"),
    TrackKind("queue", is_counter=True, group="Counters"),
    TrackKind("tokens", is_counter=True, group="Counters"),
    TrackKind("memory", is_counter=True, group="Counters"),
    TrackKind("telemetry", is_counter=True, group="Counters"),
    TrackKind("annotations", group="GPU annotations"),
    TrackKind("host", group="Host threads"),
)
