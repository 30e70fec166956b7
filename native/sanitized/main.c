/* json.c as a program of this machine, under the compiler's sanitizers; ./sluice prove drives it.
 *
 * It reads calls: the size of what is in the memory from MEMORY on, the words of `call` that a caller writes, and
 * that memory. For each it writes the size of the memory up to `arena`, and that memory, in which the addresses are.
 * Nothing may be touched but what was read and the pieces that `take` gives, each with a gap before it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

enum { MEMORY = 0x60000000, BYTES = 0x10000000, GAP = 128 };

static unsigned give(unsigned *at, unsigned size);

/* In `take` the piece's address and size have these names. */
#define __builtin_wasm_memory_size(memory) give(&at, size)
#define __builtin_wasm_memory_grow(memory, pages) ((uintptr_t)-1)
#define export_name(name) used
#include "../json.c"

static unsigned give(unsigned *at, unsigned size) {
    *at += GAP;
    ASAN_UNPOISON_MEMORY_REGION(AT(void, *at), size);
    return (MEMORY + BYTES) >> 16;
}

static void whole(size_t done, size_t wanted) {
    if (done != wanted) exit(3);
}

int main(int count, char **arguments) {
    FILE *calls = count == 2 ? fopen(arguments[1], "rb") : 0;
    if (!calls || mmap(AT(void, MEMORY), BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != AT(void, MEMORY)) return 2;
    for (u32 size; fread(&size, sizeof size, 1, calls);) {
        whole(fread(&call, 4, 8, calls), 8);
        whole(fread(AT(void, MEMORY), 1, size, calls), size);
        ASAN_POISON_MEMORY_REGION(AT(u8, MEMORY) + size, BYTES - size);
        decode();
        ASAN_UNPOISON_MEMORY_REGION(AT(void, MEMORY), BYTES);
        size = call.arena - MEMORY;
        whole(fwrite(&size, sizeof size, 1, stdout), 1);
        whole(fwrite(AT(void, MEMORY), 1, size, stdout), size);
    }
    return 0;
}
