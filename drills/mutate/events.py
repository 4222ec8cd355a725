"""Changes what the events of a trace say, in ways after which they are still valid."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from drills.mutate.texts import ODD_TEXTS

Event = dict[str, Any]


def shuffled(events: list[Event], random: Random) -> list[Event]:
    return random.sample(events, len(events))


def dropped(events: list[Event], random: Random) -> list[Event]:
    share = random.random()
    return [event for event in events if random.random() > share]


def doubled(events: list[Event], random: Random) -> list[Event]:
    return [event for event in events for _ in range(random.choice((1, 1, 1, 2, 3)))]


def renamed(events: list[Event], random: Random) -> list[Event]:
    return _some(events, random, lambda event: event | {"name": random.choice(ODD_TEXTS)})


def overlapping(events: list[Event], random: Random) -> list[Event]:
    """Events that begin inside another one of their thread and end after it."""
    longer = random.choice((10, 1_000, 100_000))
    return _timed(events, random, lambda e: {"dur": round(e["dur"] + random.random() * longer, 3)})


def equal_times(events: list[Event], random: Random) -> list[Event]:
    times = [event["ts"] for event in events if "ts" in event][:3] or [0]
    return _timed(events, random, lambda _: {"ts": random.choice(times)})


def empty(events: list[Event], random: Random) -> list[Event]:
    return _timed(events, random, lambda _: {"dur": 0})


def negative(events: list[Event], random: Random) -> list[Event]:
    key = random.choice(("ts", "dur"))
    return _timed(events, random, lambda event: {key: -event[key]})


def far_apart(events: list[Event], random: Random) -> list[Event]:
    """Times from zero to some years; 64-bit nanoseconds hold 292 years."""
    return _timed(events, random, lambda _: {"ts": random.choice((0, 1e9, 1.5e15, 4e15))})


def many_threads(events: list[Event], random: Random) -> list[Event]:
    threads = random.choice((50, 5_000))
    return _some(events, random, lambda event: event | {"tid": random.randrange(threads)})


def other_ids(events: list[Event], random: Random) -> list[Event]:
    ids = [0, -5, 2**31, 2**63 - 1, "Spans", "7", None, 2**64]
    key = random.choice(("pid", "tid"))
    return _some(events, random, lambda event: event | {key: random.choice(ids)})


def one_thread(events: list[Event], random: Random) -> list[Event]:
    """All events on one thread, where many overlap."""
    return [event | {"pid": 1, "tid": 1} for event in events]


def endless_flows(events: list[Event], random: Random) -> list[Event]:
    """Starts of arrows without ends, ends without starts, and many of one number."""
    timed = [event for event in events if "ts" in event] or [{"ts": 0, "pid": 1, "tid": 1}]
    arrows = [
        {key: event.get(key) for key in ("ts", "pid", "tid")}
        | {
            "ph": random.choice("stf"),
            "id": random.choice((1, 2, n)),
            "cat": "ac2g",
            "name": "ac2g",
        }
        for n, event in enumerate(random.choices(timed, k=200))
    ]
    return events + arrows


def instants(events: list[Event], random: Random) -> list[Event]:
    phases = ("i", "I", "R", "n")
    return _some(events, random, lambda e: e | {"ph": random.choice(phases)} if "ts" in e else e)


def other_phases(events: list[Event], random: Random) -> list[Event]:
    """Phases that are not loaded, which the ledger has to say."""
    phases = ("B", "E", "C", "N", "O", "D", "P", "b", "e", "v", "", "XX", "\u00e9")
    return _some(events, random, lambda e: e | {"ph": random.choice(phases)} if "ts" in e else e)


def other_categories(events: list[Event], random: Random) -> list[Event]:
    cats = ("kernel", "cpu_op", "gpu_memcpy", "user_annotation", "cuda_runtime", "ac2g", "new", "")
    return _some(events, random, lambda event: event | {"cat": random.choice(cats)})


def other_links(events: list[Event], random: Random) -> list[Event]:
    """Correlations and external ids that lead to any other event, or to none."""
    ids = (0, 1, -1, 2**63, 2**64, 10**25)

    def linked(event: Event) -> Event:
        links = {"correlation": random.choice(ids), "External id": random.choice(ids)}
        return event | {"args": event.get("args", {}) | links}

    return _some(events, random, linked)


def _timed(events: list[Event], random: Random, change: Callable[[Event], Event]) -> list[Event]:
    """Changes some complete events."""
    return _some(events, random, lambda e: e | change(e) if e.get("ph") == "X" else e)


def _some(events: list[Event], random: Random, change: Callable[[Event], Event]) -> list[Event]:
    share = random.choice((0.02, 0.3, 1))
    return [change(event) if random.random() < share else event for event in events]


MUTATORS: Mapping[str, Callable[[list[Event], Random], list[Event]]] = {
    function.__name__: function
    for function in (
        shuffled, dropped, doubled, renamed, overlapping, equal_times, empty, negative, far_apart,
        many_threads, other_ids, one_thread, endless_flows, instants, other_phases,
        other_categories, other_links,
    )
}  # fmt: skip
