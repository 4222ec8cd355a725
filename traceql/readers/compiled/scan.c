/* Scans the events of a JSON trace into columns, as far as they are written as profilers write them.

   It runs as WebAssembly (wasm32, SIMD) inside traceql; scanner.py calls it and builds the tables.
   The text is checked as strictly as a JSON parser would. At the first event with anything unusual
   (a number with an exponent, a time of another form, a lone surrogate, an argument of another
   type, damage) it stops in front of that event, and Python parses it. So the result is the same,
   whoever has scanned an event. */

#include <wasm_simd128.h>

#include "memory.h"

/* How a scan ended: the text ends, the list of events ends, the next event is unusual, there is no
   room for more events. */
enum { MORE, END, UNUSUAL, FULL };
/* What the functions that read a piece of JSON return. */
enum { READ = 100 };

enum { EVENTS = 1 << 14, DEEPEST = 64, LONGEST_KEY = 64, LIMIT = 256 << 20 };
enum { SLACK = 64 };  /* zeros behind the text, which no JSON goes on with */

/* Arguments that become columns: bits of `Slices.present`. */
enum { EXTERNAL_ID, CORRELATION, DEVICE, STREAM, BYTES, GRAPH_NODE_ID, NUMBERS, GRID = NUMBERS, BLOCK };

/* Copies a text. It may write up to 15 bytes more, for which there is room everywhere. */
static void copy(u8 *to, const u8 *from, u32 size) {
    for (u32 i = 0; i < size; i += 16) wasm_v128_store(to + i, wasm_v128_load(from + i));
}

/* ---- distinct texts, numbered in the order of first use ---- */

typedef struct {
    u32 count, room, slots;
    const u8 **text;
    u32 *size;
    u32 *hash;
    u32 *slot;  /* number + 1 of a text, 0 if free */
} Table;

enum { NAMES, CATS, TRACKS, PLACES, BINDINGS, TABLES };
static Table tables[TABLES];

/* Behind every text there is room to read 15 bytes more. */
static int same(const u8 *a, const u8 *b, u32 size) {
    for (; size >= 16; size -= 16, a += 16, b += 16)
        if (wasm_i8x16_bitmask(wasm_i8x16_eq(wasm_v128_load(a), wasm_v128_load(b))) != 0xffff) return 0;
    u32 equal = (u32)wasm_i8x16_bitmask(wasm_i8x16_eq(wasm_v128_load(a), wasm_v128_load(b)));
    return !(~equal & ((1u << size) - 1));
}

static u32 hash_of(const u8 *text, u32 size) {
    u64 hash = size * 0x9E3779B97F4A7C15ull, word;
    for (; size; text += 8) {
        __builtin_memcpy(&word, text, 8);
        if (size < 8) word &= ~(~0ull << 8 * size);
        hash = (hash ^ word) * 0xff51afd7ed558ccdull;
        hash ^= hash >> 32;
        size -= size < 8 ? size : 8;
    }
    hash = (hash ^ (hash >> 29)) * 0xff51afd7ed558ccdull;
    return (u32)(hash >> 32);
}

/* Makes room for one more text; 0 if there is no memory. */
static int grown(Table *table) {
    if (table->count < table->room) return 1;
    u32 room = table->room ? table->room * 2 : 1024, slots = room * 2;
    const u8 **text = allocated(room * sizeof *text, LIMIT);
    u32 *size = allocated(room * sizeof *size, LIMIT), *hash = allocated(room * sizeof *hash, LIMIT);
    u32 *slot = allocated(slots * sizeof *slot, LIMIT);
    if (!text || !size || !hash || !slot) return 0;
    __builtin_memcpy((u8 *)text, (u8 *)table->text, table->count * sizeof *text);
    __builtin_memcpy((u8 *)size, (u8 *)table->size, table->count * sizeof *size);
    __builtin_memcpy((u8 *)hash, (u8 *)table->hash, table->count * sizeof *hash);
    for (u32 i = 0; i < slots; i++) slot[i] = 0;
    for (u32 i = 0; i < table->count; i++) {
        u32 at = hash[i] & (slots - 1);
        while (slot[at]) at = (at + 1) & (slots - 1);
        slot[at] = i + 1;
    }
    *table = (Table){table->count, room, slots, text, size, hash, slot};
    return 1;
}

/* The number of a text; -1 if there is no memory for a new one. */
static i32 number_of(int which, const u8 *text, u32 size) {
    Table *table = &tables[which];
    if (!grown(table)) return -1;
    u32 hash = hash_of(text, size), at = hash & (table->slots - 1);
    for (; table->slot[at]; at = (at + 1) & (table->slots - 1)) {
        u32 found = table->slot[at] - 1;
        if (table->hash[found] == hash && table->size[found] == size && same(table->text[found], text, size))
            return (i32)found;
    }
    u8 *kept = allocated(size + SLACK, LIMIT);
    if (!kept) return -1;
    copy(kept, text, size);
    table->text[table->count] = kept;
    table->size[table->count] = size;
    table->hash[table->count] = hash;
    table->slot[at] = table->count + 1;
    return (i32)table->count++;
}

/* ---- JSON ---- */

static const u8 *p, *end;
static int escaped;  /* whether the last string has an escape */

static int failed(const u8 *at) { return at >= end ? MORE : UNUSUAL; }

static void space(void) {
    const u8 *at = p;
    while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') at++;
    p = at;
}

static int is_digit(u8 c) { return (u8)(c - '0') < 10; }

static int hex(u8 c) {
    if (is_digit(c)) return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Steps over a character of several bytes in UTF-8. */
static int character(void) {
    u8 first = *p;
    int more = first >= 0xc2 && first <= 0xdf ? 1 : (first & 0xf0) == 0xe0 ? 2 : first >= 0xf0 && first <= 0xf4 ? 3 : 0;
    if (!more) return failed(p);
    for (int i = 1; i <= more; i++)
        if ((p[i] & 0xc0) != 0x80) return failed(p + i);
    u8 second = p[1];
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f))
        return UNUSUAL;
    p += more + 1;
    return READ;
}

static int escape(void) {
    switch (p[1]) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        p += 2;
        return READ;
    case 'u': {
        int unit = 0;
        for (int i = 2; i < 6; i++) {
            int digit = hex(p[i]);
            if (digit < 0) return failed(p + i);
            unit = unit * 16 + digit;
        }
        if (unit >= 0xd800 && unit <= 0xdfff) return UNUSUAL;
        p += 6;
        return READ;
    }
    default:
        return failed(p + 1);
    }
}

static int string(void) {
    const u8 *at = p + 1;
    escaped = 0;
    for (;;) {
        v128_t text = wasm_v128_load(at);
        /* As signed bytes, control characters and those of several bytes are the smallest. */
        v128_t found = wasm_i8x16_lt(text, wasm_i8x16_splat(0x20));
        found = wasm_v128_or(found, wasm_i8x16_eq(text, wasm_i8x16_splat('"')));
        found = wasm_v128_or(found, wasm_i8x16_eq(text, wasm_i8x16_splat('\\')));
        u32 mask = wasm_i8x16_bitmask(found);
        if (!mask) {
            at += 16;
            continue;
        }
        p = at + __builtin_ctz(mask);
        int read = READ;
        if (*p == '"') {
            p++;
            return READ;
        } else if (*p == '\\') {
            escaped = 1;
            read = escape();
        } else if (*p >= 0x80) {
            read = character();
        } else {
            return failed(p);
        }
        if (read != READ) return read;
        at = p;
    }
}

static int number(void) {
    const u8 *at = p + (*p == '-');
    if (*at == '0') {
        at++;
    } else {
        if (!is_digit(*at)) return failed(at);
        while (is_digit(*at)) at++;
    }
    if (*at == '.') {
        at++;
        if (!is_digit(*at)) return failed(at);
        while (is_digit(*at)) at++;
    }
    if ((*at | 0x20) == 'e') {
        at++;
        if (*at == '+' || *at == '-') at++;
        if (!is_digit(*at)) return failed(at);
        while (is_digit(*at)) at++;
    }
    p = at;
    return at >= end ? MORE : READ;
}

static int word(const char *letters) {
    for (; *letters; letters++, p++)
        if (*p != (u8)*letters) return failed(p);
    return READ;
}

static int value(int depth);

/* Steps into an object or a list, which `close` ends; sets whether it ends at once. */
static void first_of(u8 close, int *ends) {
    p++;
    space();
    *ends = *p == close;
    if (*ends) p++;
}

/* Steps over what follows a member or an element; sets whether the object or list ends there. */
static int next_of(u8 close, int *ends) {
    space();
    *ends = *p == close;
    if (!*ends && *p != ',') return failed(p);
    p++;
    if (!*ends) space();
    return READ;
}

static int list(int depth) {
    int ends, read;
    first_of(']', &ends);
    while (!ends) {
        if ((read = value(depth)) != READ) return read;
        if ((read = next_of(']', &ends)) != READ) return read;
    }
    return READ;
}

/* Steps over a key and its colon, up to the value. */
static int key(const u8 **text, u32 *size) {
    if (*p != '"') return failed(p);
    *text = p + 1;
    int read = string();
    if (read != READ) return read;
    *size = (u32)(p - 1 - *text);
    space();
    if (*p != ':') return failed(p);
    p++;
    space();
    return READ;
}

static int object(int depth) {
    int ends, read;
    first_of('}', &ends);
    while (!ends) {
        const u8 *text;
        u32 size;
        if ((read = key(&text, &size)) != READ) return read;
        if ((read = value(depth)) != READ) return read;
        if ((read = next_of('}', &ends)) != READ) return read;
    }
    return READ;
}

static int value(int depth) {
    switch (*p) {
    case '"': return string();
    case '{': return depth < DEEPEST ? object(depth + 1) : UNUSUAL;
    case '[': return depth < DEEPEST ? list(depth + 1) : UNUSUAL;
    case 't': return word("true");
    case 'f': return word("false");
    case 'n': return word("null");
    default: return *p == '-' || is_digit(*p) ? number() : failed(p);
    }
}

/* ---- events ---- */

typedef struct {
    const u8 *text;
    u32 size;
} Text;

enum { PH, NAME, CAT, PID, TID, TS, DUR, ID, BP, ARGS, FIELDS };

static Text field[FIELDS];
static const u8 nothing[16];  /* the text of an absent field */
static u32 present;
static i64 argument[NUMBERS];
static i32 grid[3], block[3];
static u32 grid_size, block_size;

static u32 slices, ends_found, others, durs_size, args_size, ids_size;

/* Columns of complete events. */
static u32 s_name[EVENTS], s_cat[EVENTS], s_track[EVENTS], s_args[EVENTS], s_present[EVENTS];
static i64 s_ts[EVENTS], s_dur[EVENTS], s_argument[NUMBERS][EVENTS];
static i32 s_grid[EVENTS][3], s_block[EVENTS][3];
static u8 s_grid_size[EVENTS], s_block_size[EVENTS];
/* Columns of flow ends. */
static u8 e_phase[EVENTS];
static u32 e_name[EVENTS], e_cat[EVENTS], e_binding[EVENTS], e_place[EVENTS], e_id[EVENTS];
static i64 e_ts[EVENTS];
/* Where the other events are in the text. */
static u32 o_at[EVENTS], o_size[EVENTS];
/* Texts laid end to end: arguments; durations, each with a comma; ids of flows. */
static u8 *text, *args, *durs, *ids;
static u32 text_room, consumed;

static int is(const u8 *text, u32 size, const char *wanted) {
    for (; size && *wanted; size--)
        if (*text++ != (u8)*wanted++) return 0;
    return !size && !*wanted;
}

static int field_of(const u8 *text, u32 size) {
    switch (size) {
    case 2:
        return is(text, size, "ph") ? PH : is(text, size, "ts") ? TS : is(text, size, "id") ? ID
             : is(text, size, "bp") ? BP : FIELDS;
    case 3:
        return is(text, size, "dur") ? DUR : is(text, size, "cat") ? CAT : is(text, size, "pid") ? PID
             : is(text, size, "tid") ? TID : FIELDS;
    case 4:
        return is(text, size, "name") ? NAME : is(text, size, "args") ? ARGS : FIELDS;
    default:
        return FIELDS;
    }
}

static int argument_of(const u8 *text, u32 size) {
    switch (size) {
    case 4: return is(text, size, "grid") ? GRID : -1;
    case 5: return is(text, size, "block") ? BLOCK : is(text, size, "bytes") ? BYTES : -1;
    case 6: return is(text, size, "device") ? DEVICE : is(text, size, "stream") ? STREAM : -1;
    case 11:
        return is(text, size, "External id") ? EXTERNAL_ID : is(text, size, "correlation") ? CORRELATION : -1;
    case 13: return is(text, size, "graph node id") ? GRAPH_NODE_ID : -1;
    default: return -1;
    }
}

/* An integer of at most 18 digits. */
static int integer(i64 *found) {
    const u8 *first = p + (*p == '-'), *at = first;
    u64 sum = 0;
    while (is_digit(*at)) sum = sum * 10 + (*at++ - '0');
    u32 digits = (u32)(at - first);
    if (!digits || digits > 18 || at >= end || (*first == '0' && digits > 1) || *at == '.' || (*at | 0x20) == 'e') {
        int read = number();
        return read == READ ? UNUSUAL : read;
    }
    *found = *p == '-' ? -(i64)sum : (i64)sum;
    p = at;
    return READ;
}

/* A list of at most three integers of 32 bits. */
static int sizes(i32 *found, u32 *count) {
    int ends, read;
    *count = 0;
    first_of(']', &ends);
    while (!ends) {
        i64 one;
        if (*count == 3) return UNUSUAL;
        if (*p != '-' && !is_digit(*p)) return failed(p);
        if ((read = integer(&one)) != READ) return read;
        if (one != (i32)one) return UNUSUAL;
        found[(*count)++] = (i32)one;
        if ((read = next_of(']', &ends)) != READ) return read;
    }
    return READ;
}

/* ---- what is between values ---- */

/* Such as `, "dur": `, with all white space. It is the same at the same place of most events, so that a comparison is
   enough to find what it says. */
typedef struct {
    u8 text[48 + 16];  /* room for `copy` */
    u32 size;          /* 0 before the first event */
    int key;           /* what field_of or argument_of says, or CLOSED */
} Between;

enum { CLOSED = -2 };

/* Steps over the begin of an object or the end of a value, and over the next key or the end of the object. */
static int read_between(Between *usual, int is_first, int is_field, int *which) {
    const u8 *begin = p;
    int ends, read;
    if (is_first) first_of('}', &ends);
    else if ((read = next_of('}', &ends)) != READ) return read;
    *which = CLOSED;
    if (!ends) {
        const u8 *text;
        u32 size;
        if ((read = key(&text, &size)) != READ) return read;
        if (escaped) return UNUSUAL;
        *which = is_field ? field_of(text, size) : argument_of(text, size);
    }
    u32 size = (u32)(p - begin);
    if (size <= sizeof usual->text - 16) {
        copy(usual->text, begin, size);
        usual->size = size;
        usual->key = *which;
    }
    return READ;
}

static inline int between(Between *usual, int is_first, int is_field, int *which) {
    if (!usual->size || !same(p, usual->text, usual->size)) return read_between(usual, is_first, is_field, which);
    p += usual->size;
    *which = usual->key;
    if (*p <= ' ' && *which != CLOSED) space();
    return READ;
}

/* By kind of event: by the field before; by the category and the number of arguments before. */
enum { KINDS = 4, CATEGORIES = 16, PLACES_OF_ARGUMENTS = 24 };
static Between between_fields[KINDS][FIELDS + 2], between_arguments[CATEGORIES][PLACES_OF_ARGUMENTS];

static int kind_of(u8 phase) {
    switch (phase) {
    case 'X': return 1;
    case 's': case 't': case 'f': return 2;
    default: return 3;
    }
}

/* The arguments of an event; of a key that comes twice, the last counts. */
static int arguments(void) {
    Text cat = field[CAT];
    Between *usual = between_arguments[cat.size ? (cat.size ^ cat.text[1]) % CATEGORIES : 0];
    present = 0;
    for (int place = 0;; place++) {
        int which, read;
        Between *here = usual + (place < PLACES_OF_ARGUMENTS ? place : PLACES_OF_ARGUMENTS - 1);
        if ((read = between(here, !place, 0, &which)) != READ) return read;
        if (which == CLOSED) return READ;
        if (which < 0) {
            read = value(1);
        } else if (*p == 'n') {
            present &= ~(1u << which);
            read = word("null");
        } else if (which < NUMBERS) {
            if (*p != '-' && !is_digit(*p)) return failed(p);
            present |= 1u << which;
            read = integer(&argument[which]);
        } else {
            if (*p != '[') return failed(p);
            present |= 1u << which;
            read = which == GRID ? sizes(grid, &grid_size) : sizes(block, &block_size);
        }
        if (read != READ) return read;
    }
}

/* Nanoseconds of decimal microseconds: digits, and at most three behind a dot. */
static int nanoseconds(Text number, i64 *ns) {
    const u8 *at = number.text, *stop = at + number.size;
    int negative = at < stop && *at == '-', decimals = -1;
    u64 sum = 0;
    u32 digits = 0;
    for (at += negative; at < stop; at++) {
        if (*at == '.') {
            decimals = 0;  /* the text is a JSON number: there is one dot at most */
        } else {
            if (!is_digit(*at)) return UNUSUAL;
            sum = sum * 10 + (*at - '0');
            digits++;
            if (decimals >= 0) decimals++;
        }
    }
    if (!digits || digits > 19 || decimals > 3) return UNUSUAL;
    for (int i = decimals < 0 ? 0 : decimals; i < 3; i++, digits++) sum *= 10;
    if (digits > 19 || sum > 0x7fffffffffffffffull) return UNUSUAL;
    *ns = negative ? -(i64)sum : (i64)sum;
    return READ;
}

/* The numbers of the last texts, by kind of event: the next ones are often the same. */
static u32 last[KINDS][TABLES];
static int kind;  /* of the event */

/* Numbers the pair of process and thread of the event; -1 if that is unusual. */
static i32 pair(int which) {
    u8 joined[2 * LONGEST_KEY + SLACK];
    Text pid = field[PID], tid = field[TID];
    u32 size = pid.size + 1 + tid.size, *before = &last[kind][which];
    Table *table = &tables[which];
    if (*before < table->count && table->size[*before] == size) {
        const u8 *text = table->text[*before];
        if (same(text, pid.text, pid.size) && same(text + pid.size + 1, tid.text, tid.size))
            return (i32)*before;
    }
    if (pid.size > LONGEST_KEY || tid.size > LONGEST_KEY) return -1;
    copy(joined, pid.text, pid.size);
    joined[pid.size] = 0;
    copy(joined + pid.size + 1, tid.text, tid.size);
    i32 number = number_of(which, joined, size);
    if (number >= 0) *before = (u32)number;
    return number;
}

static i32 numbered(int which, int of) {
    Text given = field[of];
    Table *table = &tables[which];
    u32 *before = &last[kind][which];
    if (*before < table->count && table->size[*before] == given.size && same(table->text[*before], given.text, given.size))
        return (i32)*before;
    i32 number = number_of(which, given.text, given.size);
    if (number >= 0) *before = (u32)number;
    return number;
}

/* Whether a value is text, a short number without an exponent, true, false or null. */
static int is_scalar(Text given) {
    if (*given.text == '"') return 1;
    if (*given.text == '{' || *given.text == '[' || given.size > 18) return 0;
    if (*given.text != '-' && !is_digit(*given.text)) return 1;
    for (u32 i = 0; i < given.size; i++)
        if ((given.text[i] | 0x20) == 'e') return 0;
    return 1;
}

static int wants_scalar(int which) {
    return which == NAME || which == CAT || which == PID || which == TID || which == BP;
}

/* Reads one event up to its closing brace. */
static int event(void) {
    for (int i = 0; i < FIELDS; i++) field[i] = (Text){nothing, 0};
    present = 0;
    kind = 0;
    for (int before = FIELDS + 1;;) {  /* the field before */
        int which, read;
        if ((read = between(&between_fields[kind][before], before > FIELDS, 1, &which)) != READ) return read;
        if (which == CLOSED) return READ;
        const u8 *begin = p;
        if (which == ARGS) {
            if (*p != '{') return failed(p);
            read = arguments();
        } else {
            read = value(1);
        }
        if (read != READ) return read;
        Text given = {begin, (u32)(p - begin)};
        if (which < FIELDS) field[which] = given;
        if (which == PH) {
            if (*begin != '"' || escaped) return UNUSUAL;
            kind = kind_of(given.size == 3 ? begin[1] : 0);
        }
        if (wants_scalar(which) && !is_scalar(given)) return UNUSUAL;
        before = which;
    }
}

static int keep_slice(void) {
    u32 row = slices;
    if (row == EVENTS) return FULL;
    if (nanoseconds(field[TS], &s_ts[row]) != READ) return UNUSUAL;
    Text dur = field[DUR];
    if (!dur.size || *dur.text == 'n') dur = (Text){(const u8 *)"0", 1};
    if (nanoseconds(dur, &s_dur[row]) != READ) return UNUSUAL;
    i32 name = numbered(NAMES, NAME), cat = numbered(CATS, CAT), track = pair(TRACKS);
    if (name < 0 || cat < 0 || track < 0) return UNUSUAL;
    s_name[row] = (u32)name;
    s_cat[row] = (u32)cat;
    s_track[row] = (u32)track;
    copy(durs + durs_size, dur.text, dur.size);
    durs_size += dur.size;
    durs[durs_size++] = ',';
    copy(args + args_size, field[ARGS].text, field[ARGS].size);
    args_size += field[ARGS].size;
    s_args[row] = field[ARGS].size;
    s_present[row] = present;
    for (int i = 0; i < NUMBERS; i++)
        if (present >> i & 1) s_argument[i][row] = argument[i];
    s_grid_size[row] = s_block_size[row] = 0;
    if (present >> GRID & 1) {
        for (int i = 0; i < 3; i++) s_grid[row][i] = grid[i];
        s_grid_size[row] = (u8)grid_size;
    }
    if (present >> BLOCK & 1) {
        for (int i = 0; i < 3; i++) s_block[row][i] = block[i];
        s_block_size[row] = (u8)block_size;
    }
    slices++;
    return READ;
}

static int keep_end(u8 phase) {
    u32 row = ends_found;
    if (row == EVENTS) return FULL;
    if (nanoseconds(field[TS], &e_ts[row]) != READ) return UNUSUAL;
    i32 name = numbered(NAMES, NAME), cat = numbered(CATS, CAT), place = pair(PLACES);
    i32 binding = numbered(BINDINGS, BP);
    if (name < 0 || cat < 0 || place < 0 || binding < 0) return UNUSUAL;
    e_phase[row] = phase;
    e_name[row] = (u32)name;
    e_cat[row] = (u32)cat;
    e_place[row] = (u32)place;
    e_binding[row] = (u32)binding;
    Text id = field[ID].size ? field[ID] : (Text){(const u8 *)"0", 1};
    copy(ids + ids_size, id.text, id.size);
    ids_size += id.size;
    e_id[row] = id.size;
    ends_found++;
    return READ;
}

static int keep_other(u8 phase, const u8 *begin, const u8 *stop) {
    if (others == EVENTS) return FULL;
    /* Tracks are numbered in the order of the file, by the events that are on one. */
    if ((phase == 'i' || phase == 'I' || phase == 'R' || phase == 'n') && pair(TRACKS) < 0) return UNUSUAL;
    o_at[others] = (u32)(begin - text);
    o_size[others++] = (u32)(stop - begin);
    return READ;
}

static int keep(const u8 *begin, const u8 *stop) {
    u8 phase = field[PH].size == 3 ? field[PH].text[1] : 0;
    if (phase == 'X') return keep_slice();
    if (phase == 's' || phase == 't' || phase == 'f') return keep_end(phase);
    return keep_other(phase, begin, stop);
}

/* Reserves room for a text of so many bytes; returns where to write it, 0 if there is no memory. */
EXPORT("start") u8 *start(u32 room) {
    text = allocated(room + SLACK, LIMIT);
    args = allocated(room + SLACK, LIMIT);
    durs = allocated(2 * room + SLACK, LIMIT);
    ids = allocated(room + SLACK, LIMIT);
    text_room = room;
    return args && durs && ids ? text : 0;
}

/* Scans `size` bytes that begin with an event; returns how the scan ended. */
EXPORT("scan") int scan(u32 size) {
    slices = ends_found = others = durs_size = args_size = ids_size = consumed = 0;
    if (size > text_room) return UNUSUAL;
    for (int i = 0; i < SLACK; i++) text[size + i] = 0;
    p = text;
    end = text + size;
    for (;;) {
        const u8 *begin = p;
        consumed = (u32)(begin - text);
        if (*p != '{') return failed(p);
        int read = event();
        if (read != READ) return read;
        const u8 *stop = p;
        space();
        int last = *p == ']';
        if (!last) {
            if (*p != ',') return failed(p);
            p++;
            space();
            if (*p != '{') return failed(p);
        }
        if ((read = keep(begin, stop)) != READ) return read;
        consumed = (u32)(p - text);
        if (last) return END;
    }
}

/* Where the results of the last scan are. */
static u32 report[80];

EXPORT("results") u32 *results(void) {
    u32 found[] = {
        consumed, slices, ends_found, others, args_size, durs_size, ids_size,
        (u32)args, (u32)durs, (u32)ids,
        (u32)s_name, (u32)s_cat, (u32)s_track, (u32)s_args, (u32)s_present, (u32)s_ts, (u32)s_dur,
        (u32)s_argument, (u32)s_grid, (u32)s_block, (u32)s_grid_size, (u32)s_block_size,
        (u32)e_phase, (u32)e_name, (u32)e_cat, (u32)e_binding, (u32)e_place, (u32)e_id, (u32)e_ts,
        (u32)o_at, (u32)o_size,
    };
    u32 count = sizeof found / sizeof *found;
    for (u32 i = 0; i < count; i++) report[i] = found[i];
    for (u32 i = 0; i < TABLES; i++) {
        report[count++] = tables[i].count;
        report[count++] = (u32)tables[i].text;
        report[count++] = (u32)tables[i].size;
    }
    return report;
}
