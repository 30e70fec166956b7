/* The instructions of WebAssembly that json.c uses, for a compiler of this machine. */
#include <stdint.h>

typedef int8_t v128_t __attribute__((vector_size(16)));

static inline v128_t wasm_v128_load(const void *from) { v128_t v; __builtin_memcpy(&v, from, 16); return v; }
static inline void wasm_v128_store(void *to, v128_t v) { __builtin_memcpy(to, &v, 16); }
static inline v128_t wasm_v128_or(v128_t a, v128_t b) { return a | b; }
static inline v128_t wasm_i8x16_splat(int8_t byte) { return (v128_t){0} + byte; }
static inline v128_t wasm_i64x2_splat(int64_t zero) { return (v128_t){0} + (int8_t)zero; }
static inline v128_t wasm_i8x16_eq(v128_t a, v128_t b) { return (v128_t)(a == b); }
static inline v128_t wasm_i8x16_lt(v128_t a, v128_t b) { return (v128_t)(a < b); }
static inline uint32_t wasm_i8x16_bitmask(v128_t v) {
    uint32_t mask = 0;
    for (int i = 0; i < 16; i++) mask |= (uint32_t)(v[i] < 0) << i;
    return mask;
}
