/* Columns of integers of an SQLite table, from pages of its b-tree: see sqlite.org/fileformat.html.

   What is not as SQLite writes rows of integers is refused, so that SQLite itself reads it.

   It runs as WebAssembly (wasm32) inside traceql; sqlite_pages.py calls it. */

#include "memory.h"

enum { LIMIT = 1u << 30 };
enum { MOST_COLUMNS = 64 };
enum { INTERIOR = 5, LEAF = 13 };  /* kinds of pages of tables that have row numbers */
enum { REFUSED = 0xffffffff };

/* ---- what is asked for ---- */

static u32 page_size, usable, room;
static u8 *pages;
static i64 *lasts;                  /* the largest row number that each page may have */
static u32 wanted[MOST_COLUMNS];    /* ascending */

/* Makes room for `count` pages, of which the last `reserved` bytes are not used; 0 if there is no memory. */
EXPORT("start") int start(u32 size, u32 reserved, u32 count) {
    page_size = size;
    usable = size - reserved;
    room = count;
    pages = allocated(count * size, LIMIT);
    lasts = allocated(count * (u32)sizeof(i64), LIMIT);
    return pages && lasts;
}


/* ---- numbers in a page ---- */

static u32 two(const u8 *at) { return (u32)at[0] << 8 | at[1]; }
static u32 four(const u8 *at) { return two(at) << 16 | two(at + 2); }

/* Reads a number of one to nine bytes and moves on; 0 if it does not end before `end`. */
static int varint(const u8 **at, const u8 *end, u64 *value) {
    u64 found = 0;
    for (int i = 0; i < 9; i++) {
        if (*at >= end) return 0;
        u8 byte = *(*at)++;
        if (i == 8) {
            *value = found << 8 | byte;
            return 1;
        }
        found = found << 7 | (byte & 127);
        if (byte < 128) {
            *value = found;
            return 1;
        }
    }
    return 0;
}

/* An integer of 0, 1, 2, 3, 4, 6 or 8 bytes, the most significant first. */
static i64 integer(const u8 *at, u32 size) {
    switch (size) {
        case 0: return 0;
        case 1: return (signed char)at[0];
        case 2: return (short)two(at);
        case 3: return (i64)(signed char)at[0] << 16 | two(at + 1);
        case 4: return (i32)four(at);
        case 6: return (i64)(short)two(at) << 32 | four(at + 2);
        default: return (i64)((u64)four(at) << 32 | four(at + 4));
    }
}

/* Where the cells of a page are listed; 0 if it is not such a page, or its list does not fit. */
static const u8 *cells_of(const u8 *page, u32 kind, u32 *count) {
    u32 head = kind == LEAF ? 8 : 12;
    *count = two(page + 3);
    return page[0] == kind && *count && head + 2 * *count <= usable ? page + head : 0;
}

/* Where a cell is; 0 if that is not in the part of the page for cells. */
static const u8 *cell_of(const u8 *page, const u8 *cells, u32 count, u32 number) {
    u32 at = two(cells + 2 * number);
    return at >= (u32)(cells - page) + 2 * count && at < usable ? page + at : 0;
}

/* The least number of the first row of the page after this one. */
static i64 first_after(u32 number, u32 count) { return lasts[number] + (number + 1 < count); }

/* ---- pages that lead to others ---- */

static u32 *child;
static i64 *child_last;
static u32 child_room;

/* Finds the pages that some pages lead to, and the largest row number that each may have.

   `first` is the least row number of the first page. Returns how many, or REFUSED. */
EXPORT("children") u32 children(u32 count, i64 first) {
    if (!child) {
        child_room = room * (page_size / 5);
        child = allocated(child_room * (u32)sizeof *child, LIMIT);
        child_last = allocated(child_room * (u32)sizeof *child_last, LIMIT);
    }
    if (!child || !child_last || count > room) return REFUSED;
    u32 found = 0;
    for (u32 number = 0; number < count; number++) {
        const u8 *page = pages + number * page_size, *end = page + usable;
        u32 cells;
        const u8 *list = cells_of(page, INTERIOR, &cells);
        if (!list || found + cells + 1 > child_room) return REFUSED;
        for (u32 i = 0; i < cells; i++) {
            const u8 *at = cell_of(page, list, cells, i);
            u64 key;
            if (!at || end - at < 5) return REFUSED;
            child[found] = four(at);
            at += 4;
            if (!varint(&at, end, &key) || (i64)key < first || (i64)key >= lasts[number]) return REFUSED;
            child_last[found++] = (i64)key;
            first = (i64)key + 1;
        }
        child[found] = four(page + 8);
        child_last[found++] = lasts[number];
        first = first_after(number, count);
    }
    return found;
}

/* ---- pages with rows ---- */

static u8 *output;
static u32 output_size;
static u32 columns;
static i64 *numbers, *values;  /* the row number; the columns one after the other */
static u8 *is_null;

/* Makes room for rows; 0 if there is no memory. */
static int has_output(u32 count) {
    u64 size = (u64)count * (8 + 9 * columns) + 64;
    if (size > output_size) {
        if (size < 2ull * output_size) size = 2ull * output_size;
        if (size > LIMIT || !(output = allocated((u32)size, LIMIT))) return 0;
        output_size = (u32)size;
    }
    numbers = (i64 *)output;
    values = numbers + count;
    is_null = (u8 *)(values + columns * count);
    return 1;
}

/* Reads a record, which is all of `at` to `end`, into a row; 0 if it is not as expected.

   As in SQLite, what comes after the last field that is wanted does not matter. */
static int record(const u8 *at, const u8 *end, u32 row, u32 count) {
    static const u8 sizes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0};
    const u8 *begin = at;
    u64 head;
    if (!varint(&at, end, &head) || head > (u64)(end - begin) || head < (u64)(at - begin)) return 0;
    const u8 *head_end = begin + head, *value = head_end;
    u32 next = 0;
    for (u32 field = 0; next < columns && at < head_end; field++) {
        u64 type = *at, size;
        if (type < 128) at++;
        else if (!varint(&at, head_end, &type)) return 0;
        if (type == 10 || type == 11) return 0;
        size = type < 12 ? sizes[type] : (type - 12) / 2;
        if (size > (u64)(end - value)) return 0;
        if (next < columns && wanted[next] == field) {
            if (type == 7 || type > 9) return 0;
            values[next * count + row] = type < 7 ? integer(value, (u32)size) : (i64)type - 8;
            is_null[next * count + row] = !type;
            next++;
        }
        value += size;
    }
    return next == columns && (at < head_end || value == end);
}

/* Finds a row: where its record begins and ends, and its number, which is `*first` or more.

   Then `*first` is the least number of the next one. Returns 0 if it is not as expected. */
static int row_in(u32 number, const u8 *list, u32 cells, u32 i, i64 *first, const u8 **at, u64 *size, i64 *key) {
    const u8 *page = pages + number * page_size, *end = page + usable;
    u64 found;
    *at = cell_of(page, list, cells, i);
    if (!*at || !varint(at, end, size) || !varint(at, end, &found)) return 0;
    *key = (i64)found;
    if (*key < *first || *key > lasts[number] || (i + 1 < cells && *key == lasts[number])) return 0;
    *first = *key + (*key < lasts[number]);
    return 1;
}

/* Whether some pages have rows only, in the order of their numbers, which for the first are from `first`. */
EXPORT("are_sorted") u32 are_sorted(u32 count, i64 first) {
    if (count > room) return 0;
    for (u32 number = 0; number < count; number++) {
        u32 cells;
        const u8 *list = cells_of(pages + number * page_size, LEAF, &cells), *at;
        if (!list) return 0;
        u64 size;
        i64 key;
        for (u32 i = 0; i < cells; i++)
            if (!row_in(number, list, cells, i, &first, &at, &size, &key)) return 0;
        first = first_after(number, count);
    }
    return 1;
}

/* Reads the first `columns` of `wanted` of all rows of some pages that are sorted.

   `first` is the least row number of the first page. Returns how many rows, or REFUSED. */
EXPORT("decode") u32 decode(u32 count, u32 of_wanted, i64 first) {
    if (count > room || of_wanted > MOST_COLUMNS) return REFUSED;
    columns = of_wanted;
    u32 total = 0, rows = 0, cells;
    for (u32 number = 0; number < count; number++) {
        if (!cells_of(pages + number * page_size, LEAF, &cells)) return REFUSED;
        total += cells;
    }
    if (!has_output(total)) return REFUSED;
    for (u32 number = 0; number < count; number++) {
        const u8 *page = pages + number * page_size, *end = page + usable;
        const u8 *list = cells_of(page, LEAF, &cells), *at;
        u64 size;
        for (u32 i = 0; i < cells; i++, rows++) {
            if (!row_in(number, list, cells, i, &first, &at, &size, &numbers[rows])) return REFUSED;
            /* A larger record goes on in other pages. */
            if (size > usable - 35 || size > (u64)(end - at)) return REFUSED;
            if (!record(at, at + size, rows, total)) return REFUSED;
        }
        first = first_after(number, count);
    }
    return rows;
}

static u32 report[8];

/* Where the memory is: of what is asked for, and of what the last call found. */
EXPORT("results") u32 *results(void) {
    u32 found[] = {
        (u32)pages, (u32)lasts, (u32)wanted, (u32)child, (u32)child_last, (u32)numbers, (u32)values, (u32)is_null,
    };
    for (u32 i = 0; i < sizeof found / sizeof *found; i++) report[i] = found[i];
    return report;
}
