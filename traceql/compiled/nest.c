/* Parents and depths of slices, and the slices of flow ends: what track_nesting.py does, in the
   same steps. See there and lanes.py for what they mean.

   It runs as WebAssembly (wasm32) inside traceql; compiled_nesting.py calls it. */

#include "memory.h"

enum { LIMIT = 3u << 30 };
enum { DEEPEST = 500 };             /* as in lanes.py */
enum { SLICE, ENDS, ENDS_LATE };    /* kinds of events, as in track_nesting.py */
static const i64 NONE = -1;

typedef __int128 wide;  /* a time doubled, so that an event without a duration can end after its start */
static const wide NEVER = (wide)1 << 100;

/* ---- lists that grow ---- */

typedef struct {
    u32 count, room;
    void *items;
} List;

static int out_of_memory;

/* Makes room for one more item; 0 if there is no memory. */
static int has_room(List *list, u32 size) {
    if (list->count < list->room) return 1;
    u32 room = list->room ? list->room * 2 : 4;
    void *items = allocated(room * size, LIMIT);
    if (!items) {
        out_of_memory = 1;
        return 0;
    }
    if (list->count) __builtin_memcpy(items, list->items, list->count * size);
    list->items = items;
    list->room = room;
    return 1;
}

#define AT(list, type, place) (((type *)(list).items)[place])
#define APPEND(list, type, ...) \
    do { \
        if (has_room(&(list), sizeof(type))) AT(list, type, (list).count++) = __VA_ARGS__; \
    } while (0)

/* ---- lanes of a track ---- */

typedef struct {
    wide end;
    i64 event;
} Open;

typedef struct {
    List open;     /* of Open: the slices that have not ended, the innermost last */
    List waiting;  /* of i64: the late ends, which the next slice gets */
    i64 begun, begun_ts;
    int has_begun;
} Lane;

typedef struct {
    wide end;
    u32 lane;
} Innermost;

typedef struct {
    List lanes;    /* of Lane; lane 0 is not in the two lists below */
    List closing;  /* of Innermost, a heap: each open slice of another lane */
    List fitting;  /* of Innermost, sorted: the lanes that are not full */
    i64 moved_ts, moved;  /* start and number of the last slice in another lane, and that lane */
    u32 moved_lane;
    int has_moved;
} Track;

static int before(Innermost a, Innermost b) { return a.end != b.end ? a.end < b.end : a.lane < b.lane; }

/* The first place in a sorted list that is not before `one`. */
static u32 place_of(List *sorted, Innermost one) {
    u32 low = 0, high = sorted->count;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (before(AT(*sorted, Innermost, middle), one)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void removed(List *sorted, u32 place) {
    Innermost *at = &AT(*sorted, Innermost, place);
    __builtin_memmove(at, at + 1, (--sorted->count - place) * sizeof *at);
}

static wide innermost_end(Lane *lane) {
    return lane->open.count ? AT(lane->open, Open, lane->open.count - 1).end : NEVER;
}

/* Lists a lane, by its innermost slice, if another slice can nest in it. */
static void offer(Track *track, u32 number) {
    Lane *lane = &AT(track->lanes, Lane, number);
    if (lane->open.count >= DEEPEST) return;
    Innermost one = {innermost_end(lane), number};
    u32 place = place_of(&track->fitting, one);
    if (!has_room(&track->fitting, sizeof one)) return;
    Innermost *at = &AT(track->fitting, Innermost, place);
    __builtin_memmove(at + 1, at, (track->fitting.count++ - place) * sizeof *at);
    *at = one;
}

static void push(List *heap, Innermost one) {
    APPEND(*heap, Innermost, one);
    if (out_of_memory) return;
    u32 place = heap->count - 1;
    while (place && before(one, AT(*heap, Innermost, (place - 1) / 2))) {
        AT(*heap, Innermost, place) = AT(*heap, Innermost, (place - 1) / 2);
        place = (place - 1) / 2;
    }
    AT(*heap, Innermost, place) = one;
}

static Innermost popped(List *heap) {
    Innermost first = AT(*heap, Innermost, 0), last = AT(*heap, Innermost, --heap->count);
    u32 place = 0, child;
    while ((child = 2 * place + 1) < heap->count) {
        if (child + 1 < heap->count && before(AT(*heap, Innermost, child + 1), AT(*heap, Innermost, child))) child++;
        if (!before(AT(*heap, Innermost, child), last)) break;
        AT(*heap, Innermost, place) = AT(*heap, Innermost, child);
        place = child;
    }
    if (heap->count) AT(*heap, Innermost, place) = last;
    return first;
}

/* Closes the slices of other lanes that have ended. */
static void close_ended(Track *track, wide now) {
    while (track->closing.count && AT(track->closing, Innermost, 0).end <= now) {
        Innermost ended = popped(&track->closing);
        u32 place = place_of(&track->fitting, ended);
        if (place < track->fitting.count && !before(ended, AT(track->fitting, Innermost, place)))
            removed(&track->fitting, place);
        AT(track->lanes, Lane, ended.lane).open.count--;
        offer(track, ended.lane);
    }
}

/* The other lane in which a slice fits most closely, or a new one. */
static u32 fitting_lane(Track *track, wide begin, wide finish) {
    close_ended(track, begin);
    u32 place = place_of(&track->fitting, (Innermost){finish, 0});
    if (place < track->fitting.count) {
        u32 lane = AT(track->fitting, Innermost, place).lane;
        removed(&track->fitting, place);
        return lane;
    }
    APPEND(track->lanes, Lane, (Lane){0});
    return track->lanes.count - 1;
}

/* ---- events ---- */

static List tracks;  /* of Track */
static u32 room, overlapping;
static i64 *of_track, *ts, *dur, *number, *kind;
static List parents, depths;                        /* of i64, one for each slice */
static List bound_end, bound, bound_ts, bound_at;   /* of i64, one for each end that is bound */
static List bound_late;                             /* of u8 */

static void bind(i64 end, Lane *lane, i64 at, int late) {
    APPEND(bound_end, i64, end);
    APPEND(bound, i64, lane->begun);
    APPEND(bound_ts, i64, lane->begun_ts);
    APPEND(bound_at, i64, at);
    APPEND(bound_late, u8, late);
}

/* Puts a slice inside the innermost open slice of a lane. */
static void begin_slice(Lane *lane, i64 event, i64 start, wide finish) {
    u32 depth = lane->open.count;
    APPEND(depths, i64, depth);
    APPEND(parents, i64, depth ? AT(lane->open, Open, depth - 1).event : NONE);
    APPEND(lane->open, Open, (Open){finish, event});
    lane->begun = event;
    lane->begun_ts = start;
    lane->has_begun = 1;
    for (u32 i = 0; i < lane->waiting.count; i++)
        bind(AT(lane->waiting, i64, i), lane, start, 1);
    lane->waiting.count = 0;
}

static void add_slice(Track *track, i64 event, i64 start, i64 lasts) {
    wide begin = (wide)start * 2, finish = begin + (wide)lasts * 2 + !lasts;
    Lane *first = &AT(track->lanes, Lane, 0);
    while (first->open.count && AT(first->open, Open, first->open.count - 1).end <= begin) first->open.count--;
    if (finish <= innermost_end(first) && first->open.count < DEEPEST) {
        begin_slice(first, event, start, finish);
        return;
    }
    overlapping++;
    u32 lane = fitting_lane(track, begin, finish);
    if (out_of_memory) return;
    if (!track->has_moved || track->moved_ts != start || track->moved < event) {
        track->moved_ts = start;
        track->moved = event;
        track->moved_lane = lane;
        track->has_moved = 1;
    }
    begin_slice(&AT(track->lanes, Lane, lane), event, start, finish);
    push(&track->closing, (Innermost){finish, lane});
    offer(track, lane);
}

static void add_end(Track *track, i64 end, i64 at, i64 what) {
    u32 number = track->has_moved && track->moved_ts == at ? track->moved_lane : 0;
    Lane *lane = &AT(track->lanes, Lane, number);
    if (what == ENDS_LATE) APPEND(lane->waiting, i64, end);
    else if (lane->has_begun) bind(end, lane, at, 0);
}

/* Makes room for so many events at once; returns where their columns go, 0 if there is no memory. */
EXPORT("reserve") i64 *reserve(u32 events) {
    if (events > room) {
        i64 *columns = allocated(events * 5 * sizeof(i64), LIMIT);
        if (!columns) return 0;
        room = events;
        of_track = columns;
        ts = columns + events;
        dur = columns + 2 * events;
        number = columns + 3 * events;
        kind = columns + 4 * events;
    }
    return of_track;
}

/* Takes events: those of a track in the order of time, as for TrackNesting; 0 if memory is lacking. */
EXPORT("nest") int nest(u32 events) {
    parents.count = depths.count = overlapping = 0;
    bound_end.count = bound.count = bound_ts.count = bound_at.count = bound_late.count = 0;
    for (u32 i = 0; i < events && !out_of_memory; i++) {
        while (tracks.count <= of_track[i] && !out_of_memory) {
            APPEND(tracks, Track, (Track){0});
            if (!out_of_memory) APPEND(AT(tracks, Track, tracks.count - 1).lanes, Lane, (Lane){0});
        }
        if (out_of_memory) break;
        Track *track = &AT(tracks, Track, of_track[i]);
        if (kind[i] == SLICE) add_slice(track, number[i], ts[i], dur[i]);
        else add_end(track, number[i], ts[i], kind[i]);
    }
    return !out_of_memory;
}

static u32 report[10];

/* How many slices and ends the last call gave, how many slices overlap, and where the columns are. */
EXPORT("results") u32 *results(void) {
    u32 found[] = {
        parents.count, bound.count, overlapping, (u32)parents.items, (u32)depths.items,
        (u32)bound_end.items, (u32)bound.items, (u32)bound_ts.items, (u32)bound_at.items, (u32)bound_late.items,
    };
    for (u32 i = 0; i < sizeof found / sizeof *found; i++) report[i] = found[i];
    return report;
}
