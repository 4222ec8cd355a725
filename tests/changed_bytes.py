"""Pages of a file of which a few bytes are changed."""

from hypothesis import strategies as st

Changes = list[tuple[float, int, int]]


def changes(*, most: int) -> st.SearchStrategy[Changes]:
    """Up to so many changes: where the page is, as a share of all; the byte in it; its value."""
    place = st.integers(0, 40) | st.integers(0, 511)
    change = st.tuples(st.floats(0, 1, exclude_max=True), place, st.integers(0, 255))
    return st.lists(change, min_size=1, max_size=most)


def change(content: bytearray, size: int, wanted: Changes) -> None:
    """Makes the changes, in pages of this size; the first page stays."""
    for share, offset, value in wanted:
        page = 1 + int(share * (len(content) // size - 1))
        content[page * size + offset] = value
