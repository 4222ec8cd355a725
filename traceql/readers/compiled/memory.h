/* Types, and memory that is never freed, because an instance lives as long as a file is read. */

#ifndef TRACEQL_MEMORY_H
#define TRACEQL_MEMORY_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

#define EXPORT(name) __attribute__((export_name(name)))

extern u8 __heap_base;
static u32 heap, heap_end;

/* So many bytes, on a boundary of 16; 0 if there is no memory, or more than `limit` bytes in all. */
static void *allocated(u32 size, u32 limit) {
    if (!heap) {
        heap = ((u32)&__heap_base + 15) & ~15u;
        heap_end = (u32)__builtin_wasm_memory_size(0) << 16;
    }
    u64 next = ((u64)heap + size + 15) & ~15ull;
    if (next > limit) return 0;
    if (next > heap_end) {
        u32 pages = (u32)((next - heap_end + 0xffff) >> 16);
        if (__builtin_wasm_memory_grow(0, pages) == (u32)-1) return 0;
        heap_end += pages << 16;
    }
    u32 at = heap;
    heap = (u32)next;
    return (void *)at;
}

#endif
