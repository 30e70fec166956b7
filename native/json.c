/* JSON objects to columns by a schema that the caller lays out as nodes: one record after the other, in one pass.
 *
 * A record is taken, exactly as the reference in Python reads it, or left with the reason; this file never says
 * that a record is bad. Whatever is rare (escapes in keys, more digits than a machine word, years before 1) is
 * left, so a rule of the reference needs a line here only where it accepts less.
 *
 * The memory is the sandbox's: the caller writes nodes and values, `decode` appends columns behind `arena` and
 * grows the memory as it needs. Nothing is freed; the next call begins anew.
 */
#include <stdint.h>
#include <wasm_simd128.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint64_t u64;
typedef int64_t i64;
typedef unsigned __int128 u128;

enum Kind { STRUCT, LIST, MAP, LONG, INT, DOUBLE, FLOAT, BOOLEAN, TEXT, FIXED, UUID, DECIMAL, ZONED, LOCAL, DATE, TIME, SKIPPED };

/* Why a record is left; native.py has the names in this order. */
enum Reason { TAKEN, SYNTAX, UNKNOWN, WRONG_KIND, NUMBER, MOMENT, CHARACTERS, KEY, DEPTH, LIMIT };

enum { REQUIRED = 1, IGNORES = 2, MAX_DEPTH = 50, MAX_KEYS = 64, MAX_STACK = 1024, MAX_MAP_KEYS = 256, MAX_IGNORED = 64 };

/* A column, or a struct, list or map around columns; the caller writes the first eleven words, `decode` the rest.
 * `data` holds values of `width` bytes, or the ends of lists, maps and texts as 32-bit offsets from 0 on. */
typedef struct Node {
    u32 kind, flags, first, count, name, name_size, table, mask, width;
    u32 expected_rows, expected_bytes; /* of 16 records, by the last call: the next one makes room for them */
    u32 rows, room, valid, data, bytes, bytes_size, bytes_room, next, nulls;
} Node;

typedef struct { u32 node, name, size, count; } Ignored;
typedef struct { u64 mantissa; i32 exponent, digits; u8 negative, fraction, many; } Number;

/* The caller writes the first eight words, and reads `arena` and `ignored_size` when `decode` is back: an argument of
 * a call costs as much as three columns of a record. */
struct Call { u32 nodes, node_count, powers, values, ends, count, status, arena, ignored_size, reason, stack_size, noted_size; } call;
#define s call
static struct { u32 at, size; } stack[MAX_STACK]; /* the unknown keys of the objects that are open */
Ignored ignored[MAX_IGNORED];
static u16 noted[MAX_STACK]; /* what the record in hand has counted in `ignored` */

#define AT(type, address) ((type *)(uintptr_t)(address))
#define LEAVE(why) return s.reason = (why), (u8 *)0
#define NODE(index) (AT(Node, s.nodes) + (index))

static u64 word(const u8 *p) { u64 w; __builtin_memcpy(&w, p, 8); return w; }

static u32 take(u32 size) {
    u32 at = (s.arena + 63) & ~63u;
    u64 end = (u64)at + size + 64, have = (u64)__builtin_wasm_memory_size(0) << 16;
    if (end > have && __builtin_wasm_memory_grow(0, (u32)((end - have + 0xffff) >> 16)) == (uintptr_t)-1) __builtin_trap();
    s.arena = at + size;
    return at;
}

static u32 moved(u32 from, u32 used, u32 size) {
    u32 to = take(size);
    if (used) __builtin_memcpy(AT(u8, to), AT(u8, from), used);
    return to;
}

static __attribute__((noinline)) void make_room(Node *d, u32 room) {
    d->valid = moved(d->valid, d->rows, room + 8);
    if (d->width) d->data = moved(d->data, d->rows * d->width + (d->room ? d->width : 0), (room + 1) * d->width + 16);
    d->room = room;
}

static u8 *text_room(Node *d, u32 more) {
    u32 need = d->bytes_size + more + 16;
    if (need > d->bytes_room) {
        u32 room = need > d->bytes_room * 2 ? need : d->bytes_room * 2;
        d->bytes = moved(d->bytes, d->bytes_size, room);
        d->bytes_room = room;
    }
    return AT(u8, d->bytes + d->bytes_size);
}

/* Append to a column; what is inside of a struct, list or map is appended by the caller. */
static void *append(Node *d, u8 is_valid) {
    if (d->rows == d->room) make_room(d, d->room * 2 + 64);
    AT(u8, d->valid)[d->rows] = is_valid;
    return AT(u8, d->data + d->rows++ * d->width);
}

static void append_end(Node *d, u8 is_valid, u32 end) { ((u32 *)append(d, is_valid))[1] = end; }

static u32 end_of(Node *d) { return d->kind == TEXT ? d->bytes_size : NODE(d->first)->rows; }

static u32 append_null(Node *d) {
    if (d->kind == SKIPPED) return d->rows++, 1;
    if (d->flags & REQUIRED) return s.reason = WRONG_KIND, 0;
    if (d->kind == LIST || d->kind == MAP || d->kind == TEXT) return append_end(d, 0, end_of(d)), 1;
    u8 *at = append(d, 0);
    if (d->width && d->width <= 16) wasm_v128_store(at, wasm_i64x2_splat(0));
    else for (u32 i = 0; i < d->width; i++) at[i] = 0;
    for (u32 i = 0; i < d->count; i++) {
        Node *child = NODE(d->first + i);
        u32 flags = child->flags;
        child->flags &= ~(u32)REQUIRED; /* a null struct has no fields that could be missing */
        append_null(child);
        child->flags = flags;
    }
    return 1;
}

static void cut(Node *d, u32 rows) {
    d->rows = rows;
    if (d->kind == TEXT) d->bytes_size = AT(u32, d->data)[rows];
    if (d->kind == LIST || d->kind == MAP) rows = AT(u32, d->data)[rows];
    for (u32 i = 0; i < d->count; i++) cut(NODE(d->first + i), rows);
}

static __attribute__((noinline)) u8 *more_blanks(u8 *p) {
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') p++;
    return p;
}

static inline u8 *blanks(u8 *p) { return *p > ' ' ? p : more_blanks(p); }

/* The size of the character at `p` of more than one byte, 0 where it is not UTF-8. */
static u32 wide(const u8 *p) {
    u32 a = p[0], b = p[1];
    if (a < 0xc2 || (b & 0xc0) != 0x80) return 0;
    if (a < 0xe0) return 2;
    if ((p[2] & 0xc0) != 0x80) return 0;
    if (a < 0xf0) return (a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f) ? 0 : 3;
    if ((p[3] & 0xc0) != 0x80 || a > 0xf4 || (a == 0xf0 && b < 0x90) || (a == 0xf4 && b > 0x8f)) return 0;
    return 4;
}

static u32 plain_bytes(v128_t v) { /* how many bytes in a row are plain ASCII, neither quote nor backslash */
    v128_t odd = wasm_v128_or(wasm_v128_or(wasm_i8x16_eq(v, wasm_i8x16_splat('"')), wasm_i8x16_eq(v, wasm_i8x16_splat('\\'))),
                              wasm_i8x16_lt(v, wasm_i8x16_splat(' '))); /* signed: bytes from 0x80 on are below, too */
    u32 mask = wasm_i8x16_bitmask(odd);
    return mask ? (u32)__builtin_ctz(mask) : 16;
}

static i32 hex4(const u8 *p) {
    i32 code = 0;
    for (u32 i = 0; i < 4; i++) {
        u32 c = p[i], digit = c - '0';
        if (digit > 9) { digit = (c | 32) - 'a'; if (digit > 5) return -1; digit += 10; }
        code = code * 16 + (i32)digit;
    }
    return code;
}

static u8 *escape(u8 *p, u8 **out) { /* behind the backslash */
    static const u8 from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    u8 *o = *out;
    for (u32 i = 0; i < 8; i++) if (*p == from[i]) return *o = to[i], *out = o + 1, p + 1;
    i32 code = *p == 'u' ? hex4(p + 1) : -1;
    if (code < 0) LEAVE(SYNTAX);
    p += 5;
    if ((code & 0xf800) == 0xd800) {
        i32 low = code < 0xdc00 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2) : -1;
        if (low < 0xdc00 || low > 0xdfff) LEAVE(CHARACTERS);
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        p += 6;
    }
    if (code < 0x80) *o++ = (u8)code;
    else if (code < 0x800) *o++ = (u8)(0xc0 | code >> 6), *o++ = (u8)(0x80 | (code & 63));
    else if (code < 0x10000) *o++ = (u8)(0xe0 | code >> 12), *o++ = (u8)(0x80 | (code >> 6 & 63)), *o++ = (u8)(0x80 | (code & 63));
    else *o++ = (u8)(0xf0 | code >> 18), *o++ = (u8)(0x80 | (code >> 12 & 63)), *o++ = (u8)(0x80 | (code >> 6 & 63)), *o++ = (u8)(0x80 | (code & 63));
    return *out = o, p;
}

/* Copy a string, `p` behind its quote, to `*out`, which has room for what is left of the record and 16 bytes. */
static u8 *string(u8 *p, u8 **out) {
    u8 *o = *out;
    for (;;) {
        v128_t v = wasm_v128_load(p);
        wasm_v128_store(o, v);
        u32 plain = plain_bytes(v), size;
        p += plain, o += plain;
        if (plain == 16) continue;
        if (*p == '"') return *out = o, p + 1;
        if (*p == '\\') { if (!(p = escape(p + 1, &o))) return p; }
        else if (*p < ' ') LEAVE(SYNTAX);
        else do {
            if (!(size = wide(p))) LEAVE(CHARACTERS);
            while (size--) *o++ = *p++;
        } while (*p >= 0x80);
    }
}

/* The closing quote of a string, `p` behind its opening one; a key with an escape is left. */
static inline __attribute__((always_inline)) u8 *string_end(u8 *p, u32 is_key) {
    for (;;) {
        u32 plain = plain_bytes(wasm_v128_load(p)), size;
        u8 unescaped[4], *out = unescaped;
        p += plain;
        if (plain == 16) continue;
        if (*p == '"') return p;
        if (*p == '\\') {
            if (is_key) LEAVE(KEY);
            if (!(p = escape(p + 1, &out))) return p;
        } else if (*p < ' ') LEAVE(SYNTAX);
        else if (!(size = wide(p))) LEAVE(CHARACTERS);
        else p += size;
    }
}

static inline u32 alike(const u8 *a, const u8 *b, u32 size) {
    if (size > 8) {
        for (; size > 16; a += 8, b += 8, size -= 8) if (word(a) != word(b)) return 0;
        return word(a) == word(b) && word(a + size - 8) == word(b + size - 8);
    }
    return !size || !((word(a) ^ word(b)) << (64 - 8 * size));
}

/* How many digits are at `p`, up to eight, and their value: all at once, without a loop. */
static inline u32 eight(const u8 *p, u64 *value) {
    u64 w = word(p), t = w - 0x3030303030303030, odd = ((w + 0x4646464646464646) | t) & 0x8080808080808080;
    u32 count = odd ? (u32)__builtin_ctzll(odd) >> 3 : 8;
    if (!count) return 0;
    t <<= 64 - 8 * count;
    t = t * 10 + (t >> 8);
    *value = (u32)(((t & 0xff000000ff) * 0xf424000000064 + ((t >> 16) & 0xff000000ff) * 0x271000000001) >> 32);
    return count;
}
static const u64 TENS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* Digits behind those of `n`; those past the 19th are told by `many` and counted by `*dropped`. */
static __attribute__((noinline)) u8 *more_digits(u8 *p, Number *n, i32 *dropped) {
    for (; (u8)(*p - '0') <= 9; p++)
        if (n->digits < 19) n->mantissa = n->mantissa * 10 + (u64)(*p - '0'), n->digits += n->mantissa != 0;
        else ++*dropped, n->many |= 1 + (*p != '0');
    return p;
}

static inline u8 *digits(u8 *p, Number *n, i32 *dropped) {
    u64 value;
    u32 count = eight(p, &value);
    if (n->digits > 9 || (count == 8 && n->digits > 3)) return more_digits(p, n, dropped);
    if (count) n->mantissa = n->mantissa * TENS[count] + value, n->digits = n->mantissa ? n->digits + (i32)count : 0;
    return count == 8 ? more_digits(p + 8, n, dropped) : p + count;
}

static inline u8 *number(u8 *p, Number *n) {
    i32 dropped = 0, unused = 0;
    n->negative = *p == '-', n->many = 0, n->mantissa = 0, n->digits = 0, n->fraction = 0;
    p += n->negative;
    u8 *start = p;
    p = digits(p, n, &dropped);
    if (p == start || (*start == '0' && p > start + 1)) LEAVE(SYNTAX);
    n->exponent = dropped;
    if (*p == '.') {
        u8 *point = ++p;
        p = digits(p, n, &unused);
        if (p == point) LEAVE(SYNTAX);
        n->exponent -= (i32)(p - point) - unused;
        n->fraction = 1;
    }
    if ((*p | 32) == 'e') {
        u8 negative = *++p == '-';
        p += negative | (*p == '+');
        u8 *first = p;
        i32 power = 0;
        while ((u8)(*p - '0') <= 9) { if (power < 100000) power = power * 10 + (*p - '0'); p++; }
        if (p == first) LEAVE(SYNTAX);
        n->exponent += negative ? -power : power;
        n->fraction = 1;
    }
    return p;
}

static u64 high_product(u64 a, u64 b, u64 *low) {
    u64 a0 = (u32)a, a1 = a >> 32, b0 = (u32)b, b1 = b >> 32, m0 = a0 * b0, m1 = a1 * b0, m2 = a0 * b1;
    u64 middle = (m0 >> 32) + (u32)m1 + (u32)m2;
    *low = middle << 32 | (u32)m0;
    return a1 * b1 + (m1 >> 32) + (m2 >> 32) + (middle >> 32);
}

/* The bits of the nearest double (Lemire, "Number Parsing at a Gigabyte per Second"); 0 where it is subnormal, too
 * large, or not sure. `powers` holds the 128 highest bits of 5^-342 to 5^308, rounded down. */
static u64 nearest(u64 mantissa, i32 power) {
    if (power < -342 || power > 308 || !mantissa) return 0;
    u32 zeros = (u32)__builtin_clzll(mantissa);
    const u64 *five = AT(u64, s.powers) + 2 * (power + 342);
    u64 low, high = high_product(mantissa << zeros, five[1], &low);
    if ((high & 0x1ff) == 0x1ff) {
        u64 ignored_low, more = high_product(mantissa << zeros, five[0], &ignored_low);
        low += more;
        high += low < more;
        if ((high & 0x1ff) == 0x1ff && low == ~0ull) return 0;
    }
    u32 upper = (u32)(high >> 63);
    u64 m = high >> (upper + 9);
    i32 exponent = ((217706 * power) >> 16) + 63 + 1023 + (i32)upper - (i32)zeros;
    if (exponent <= 0) return 0;
    if (low <= 1 && power >= -4 && power <= 23 && (m & 3) == 1 && (m << (upper + 9)) == high) m &= ~1ull; /* half to even */
    m = (m + (m & 1)) >> 1;
    if (m >= 1ull << 53) m = 1ull << 52, exponent++;
    if (exponent >= 2047) return 0;
    return (m & ~(1ull << 52)) | (u64)exponent << 52;
}

static u8 *floating(u8 *p, Node *d) {
    Number n;
    union { u64 bits; double value; } r;
    if (!(p = number(p, &n))) return p;
    if (!n.fraction) { /* an integer must be the double that it becomes */
        r.value = (double)n.mantissa;
        if (n.many || (!n.mantissa && n.negative) || (u64)r.value != n.mantissa) LEAVE(NUMBER);
    } else if (!n.mantissa) r.bits = 0;
    else {
        r.bits = nearest(n.mantissa, n.exponent);
        if (!r.bits || (n.many > 1 && r.bits != nearest(n.mantissa + 1, n.exponent))) LEAVE(NUMBER);
    }
    if (n.negative) r.value = -r.value;
    if (d->kind == DOUBLE) return *(double *)append(d, 1) = r.value, p;
    float single = (float)r.value, size = single < 0 ? -single : single;
    if (size > 0x1.fffffep127f || (r.value != 0 && size < 0x1p-126f)) LEAVE(NUMBER);
    /* What was rounded to the middle of two singles may have been on either side of it. */
    if (n.fraction ? (r.bits & 0x1fffffff) == 0x10000000 : (double)single != r.value) LEAVE(NUMBER);
    return *(float *)append(d, 1) = single, p;
}

static u8 *integer(u8 *p, Node *d) {
    Number n;
    if (!(p = number(p, &n))) return p;
    u64 limit = (d->kind == LONG ? 1ull << 63 : 1ull << 31) - !n.negative;
    if (n.fraction || n.many || n.mantissa > limit) LEAVE(NUMBER);
    i64 value = (i64)(n.negative ? -n.mantissa : n.mantissa);
    if (d->kind == LONG) *(i64 *)append(d, 1) = value;
    else *(i32 *)append(d, 1) = (i32)value;
    return p;
}

/* Digits with a sign, a point and an exponent, as Python's Decimal reads them; `table` is the precision, `mask` the scale. */
static u8 *decimal(u8 *p, Node *d) {
    u8 quoted = *p == '"', *start, negative, point = 0;
    Number n;
    if (!quoted && !number(p, &n)) return 0; /* JSON's grammar is the narrower one */
    p += quoted;
    negative = *p == '-';
    p += negative | (quoted && *p == '+');
    u128 value = 0;
    i32 shift = (i32)d->mask, digits = 0, power = 0;
    for (start = p; ; p++) {
        if (*p == '.' && !point) { point = 1; continue; }
        if ((u8)(*p - '0') > 9) break;
        if (digits == 38) LEAVE(NUMBER);
        value = (value << 3) + (value << 1) + (*p - '0');
        digits += value != 0, shift -= point;
    }
    if (p - start - point < 1) LEAVE(NUMBER);
    if ((*p | 32) == 'e') {
        u8 *first, below = *++p == '-';
        p += below | (*p == '+');
        for (first = p; (u8)(*p - '0') <= 9; p++) if (power < 10000) power = power * 10 + (*p - '0');
        if (p == first || p - first > 4) LEAVE(NUMBER);
        shift += below ? -power : power;
    }
    if (quoted && *p++ != '"') LEAVE(NUMBER);
    if (value && digits + shift > (i32)d->table) LEAVE(NUMBER);
    for (; value && shift > 0; shift--) value = (value << 3) + (value << 1);
    for (; value && shift < 0; shift++) { /* dividing by ten, digit by digit in words */
        u64 rest = 0, part[4] = {(u32)(value >> 96), (u32)(value >> 64), (u32)(value >> 32), (u32)value};
        for (u32 i = 0; i < 4; i++) part[i] |= rest << 32, rest = part[i] % 10, part[i] /= 10;
        if (rest) LEAVE(NUMBER);
        value = (u128)part[0] << 96 | (u128)part[1] << 64 | (u128)part[2] << 32 | part[3];
    }
    if (negative) value = -value;
    __builtin_memcpy(append(d, 1), &value, 16);
    return p;
}

static u32 two(const u8 *p, u32 most) { /* two digits up to `most`; more than it where they are not */
    u32 a = (u32)p[0] - '0', b = (u32)p[1] - '0', value = a * 10 + b;
    return a > 9 || b > 9 || value > most ? 1000 : value;
}

static u8 *date(u8 *p, i64 *days) {
    static const u8 lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    u32 high = two(p, 99), low = high > 99 ? 1000 : two(p + 2, 99);
    if (low > 99 || !(high | low) || p[4] != '-') LEAVE(MOMENT);
    u32 month = two(p + 5, 12), year = high * 100 + low;
    if (month - 1 > 11 || p[7] != '-') LEAVE(MOMENT);
    u32 day = two(p + 8, 31), leap = month == 2 && !(year % 4) && (year % 100 || !(year % 400));
    if (day - 1 >= lengths[month - 1] + leap) LEAVE(MOMENT);
    u32 y = year - (month <= 2), era_year = y % 400, of_year = (153 * (month + (month > 2 ? -3u : 9)) + 2) / 5 + day - 1;
    *days = (i64)(y / 400) * 146097 + era_year * 365 + era_year / 4 - era_year / 100 + of_year - 719468;
    return p + 10;
}

/* hh[:mm[:ss[.f]]] in microseconds; digits behind the sixth must be zeros. */
static u8 *clock(u8 *p, i64 *us) {
    u32 hour = two(p, 23), minute = 0, second = 0, fraction = 0;
    if (hour > 23) LEAVE(MOMENT);
    p += 2;
    if (*p == ':') {
        if ((minute = two(p + 1, 59)) > 59) LEAVE(MOMENT);
        p += 3;
        if (*p == ':') {
            if ((second = two(p + 1, 59)) > 59) LEAVE(MOMENT);
            p += 3;
            if (*p == '.') {
                u64 value;
                u32 count = eight(++p, &value);
                if (!count) LEAVE(MOMENT);
                p += count;
                if (count <= 6) fraction = (u32)(value * TENS[6 - count]);
                else {
                    if (value % TENS[count - 6]) LEAVE(MOMENT);
                    fraction = (u32)(value / TENS[count - 6]);
                    while (*p == '0') p++;
                }
            }
        }
    }
    *us = ((i64)(hour * 60 + minute) * 60 + second) * 1000000 + fraction;
    return p;
}

static u8 *zone(u8 *p, i64 *us) {
    if (*p == 'Z') return p + 1;
    u8 sign = *p++;
    u32 hours = two(p, 23), minutes = 0;
    if ((sign != '+' && sign != '-') || hours > 23) LEAVE(MOMENT);
    p += 2;
    if (*p != '"') {
        p += *p == ':';
        if ((minutes = two(p, 59)) > 59) LEAVE(MOMENT);
        p += 2;
    }
    i64 away = (i64)(hours * 60 + minutes) * 60000000;
    *us += sign == '-' ? away : -away;
    return p;
}

static u8 *moment(u8 *p, Node *d) {
    const i64 day = 86400000000, first = -719162 * day, last = 2932897 * day - 1;
    i64 days = 0, us = 0;
    if (*p++ != '"') LEAVE(WRONG_KIND);
    if (d->kind == TIME) {
        if (p[2] != ':' || !(p = clock(p, &us))) LEAVE(MOMENT);
    } else {
        if (!(p = date(p, &days))) return p;
        if (d->kind != DATE && (*p == 'T' || *p == ' ')) {
            if (!(p = clock(p + 1, &us)) || (d->kind == ZONED && !(p = zone(p, &us)))) return p;
        } else if (d->kind == ZONED) LEAVE(MOMENT);
        us += days * day;
        if (us < first || us > last) LEAVE(MOMENT);
    }
    if (*p != '"') LEAVE(MOMENT);
    if (d->kind == DATE) *(i32 *)append(d, 1) = (i32)days;
    else *(i64 *)append(d, 1) = us;
    return p + 1;
}

static u8 *uuid(u8 *p, Node *d) {
    u8 value[16];
    if (*p++ != '"') LEAVE(WRONG_KIND);
    for (u32 i = 0; i < 16; i += 2) {
        i32 code = hex4(p);
        if (code < 0) LEAVE(CHARACTERS);
        value[i] = (u8)(code >> 8), value[i + 1] = (u8)code;
        p += 4;
        if (i >= 2 && i <= 8 && *p++ != '-') LEAVE(CHARACTERS);
    }
    if (*p != '"') LEAVE(CHARACTERS);
    __builtin_memcpy(append(d, 1), value, 16);
    return p + 1;
}

static u8 *end_of_record;

static u8 *text(u8 *p, Node *d) {
    if (*p++ != '"') LEAVE(WRONG_KIND);
    u8 *start = text_room(d, (u32)(end_of_record - p)), *out = start;
    if (!(p = string(p, &out))) return p;
    if (d->kind == TEXT) {
        d->bytes_size += (u32)(out - start);
        append_end(d, 1, d->bytes_size);
    } else { /* of a fixed size: `bytes` is a place to write it to first */
        if ((u32)(out - start) != d->width) LEAVE(WRONG_KIND);
        __builtin_memcpy(append(d, 1), start, d->width);
    }
    return p;
}

/* Note a key without a column; it is left where the object has it twice. */
static u32 push_key(u32 base, u8 *at, u32 size) {
    if (s.stack_size == MAX_STACK || s.stack_size - base == MAX_KEYS) return s.reason = LIMIT, 0;
    for (u32 i = base; i < s.stack_size; i++)
        if (stack[i].size == size && alike(AT(u8, stack[i].at), at, size)) return s.reason = KEY, 0;
    stack[s.stack_size].at = (u32)(uintptr_t)at, stack[s.stack_size++].size = size;
    return 1;
}

static u8 *literal(u8 *p, u32 four) {
    u32 have;
    __builtin_memcpy(&have, p, 4);
    if (have != four) LEAVE(WRONG_KIND);
    return p + 4;
}
enum { NULL_ = 0x6c6c756e, TRUE_ = 0x65757274, ALSE = 0x65736c61 };

static u8 *comma(u8 *p, u8 close, u32 *more) { /* behind an item */
    p = blanks(p);
    if (*p == ',') return *more = 1, blanks(p + 1);
    if (*p != close) LEAVE(SYNTAX);
    return *more = 0, p + 1;
}

/* Pass over a value; `*says` is set where anything in it is more than null. */
static u8 *skip(u8 *p, u32 depth, u32 *says) {
    u32 more = 1, base = s.stack_size;
    Number n;
    u8 *end;
    switch (*p) {
    case 'n': return literal(p, NULL_);
    case 't': return *says = 1, literal(p, TRUE_);
    case 'f': return *says = 1, literal(p + 1, ALSE);
    case '"':
        *says = 1;
        return (end = string_end(p + 1, 0)) ? end + 1 : end;
    case '[': case '{':
        if (depth > MAX_DEPTH) LEAVE(DEPTH);
        u8 close = *p == '{' ? '}' : ']';
        p = blanks(p + 1);
        if (*p == close) return p + 1;
        while (more) {
            if (close == '}') {
                if (*p++ != '"') LEAVE(SYNTAX);
                if (!(end = string_end(p, 1)) || !push_key(base, p, (u32)(end - p))) return 0;
                p = blanks(end + 1);
                if (*p != ':') LEAVE(SYNTAX);
                p = blanks(p + 1);
            }
            if (!(p = skip(p, depth + 1, says)) || !(p = comma(p, close, &more))) return p;
        }
        s.stack_size = base;
        return p;
    default: *says = 1; return number(p, &n);
    }
}

static u8 *unknown(u8 *p, Node *d, u8 *name, u32 size, u32 depth) {
    u32 says = 0, i;
    u8 *end = skip(p, depth, &says);
    if (!end || !says) return end;
    if (!(d->flags & IGNORES)) LEAVE(UNKNOWN);
    u32 index = (u32)(d - NODE(0));
    for (i = 0; i < s.ignored_size; i++)
        if (ignored[i].node == index && ignored[i].size == size && alike(AT(u8, ignored[i].name), name, size)) break;
    if (i == MAX_IGNORED || s.noted_size == MAX_STACK) LEAVE(LIMIT);
    if (i == s.ignored_size) {
        u32 copy = take(size + 8);
        __builtin_memcpy(AT(u8, copy), name, size);
        ignored[s.ignored_size++] = (Ignored){index, copy, size, 0};
    }
    ignored[i].count++;
    noted[s.noted_size++] = (u16)i;
    return end;
}

static u32 find(Node *d, u8 *key, u32 size) {
    u32 hash = 2166136261u;
    for (u32 i = 0; i < size; i++) hash = (hash ^ key[i]) * 16777619u;
    for (u32 slot = hash & d->mask;; slot = (slot + 1) & d->mask) {
        u32 child = AT(u32, d->table)[slot];
        if (!child) return ~0u;
        Node *c = NODE(d->first + child - 1);
        if (c->name_size == size && alike(AT(u8, c->name), key, size)) return child - 1;
    }
}

static u8 *value(u8 *p, Node *d, u32 depth);

static u8 *object(u8 *p, Node *d, u32 depth) {
    u32 row = d->rows, more = 1, seen = 0, base = s.stack_size;
    if (*p != '{') LEAVE(WRONG_KIND);
    if (depth > MAX_DEPTH) LEAVE(DEPTH);
    append(d, 1);
    p = blanks(p + 1);
    if (*p == '}') more = 0, p++;
    while (more) {
        if (*p++ != '"') LEAVE(SYNTAX);
        u32 index = d->next < d->count ? d->next : 0, says;
        Node *c = NODE(d->first + index);
        u8 *key = p;
        if (d->count && p[c->name_size] == '"' && alike(AT(u8, c->name), p, c->name_size)) p += c->name_size + 1;
        else {
            u8 *end = string_end(p, 1);
            if (!end) return end;
            index = find(d, key, (u32)(end - key));
            c = NODE(d->first + index);
            p = end + 1;
        }
        u32 size = (u32)(p - 1 - key);
        p = blanks(p);
        if (*p != ':') LEAVE(SYNTAX);
        p = blanks(p + 1);
        if (index == ~0u) {
            if (!push_key(base, key, size) || !(p = unknown(p, d, key, size, depth + 1))) return 0;
        } else {
            if (c->rows != row) LEAVE(KEY);
            d->next = index + 1, seen++;
            if (c->kind == SKIPPED) c->rows++, p = skip(p, depth + 1, &says);
            else p = value(p, c, depth + 1);
            if (!p) return p;
        }
        if (!(p = comma(p, '}', &more))) return p;
    }
    s.stack_size = base;
    if (seen < d->count)
        for (u32 i = 0; i < d->count; i++)
            if (NODE(d->first + i)->rows == row && !append_null(NODE(d->first + i))) return 0;
    return p;
}

static u8 *map(u8 *p, Node *d, u32 depth) {
    Node *keys = NODE(d->first), *items = keys + 1;
    u32 more = 1, first = keys->rows;
    if (*p != '{') LEAVE(WRONG_KIND);
    if (depth > MAX_DEPTH) LEAVE(DEPTH);
    p = blanks(p + 1);
    if (*p == '}') more = 0, p++;
    while (more) {
        if (*p != '"') LEAVE(SYNTAX);
        if (!(p = text(p, keys))) return p;
        u32 *ends = AT(u32, keys->data), last = keys->rows - 1, size = ends[last + 1] - ends[last];
        if (last - first == MAX_MAP_KEYS) LEAVE(LIMIT);
        for (u32 i = first; i < last; i++)
            if (ends[i + 1] - ends[i] == size && alike(AT(u8, keys->bytes + ends[i]), AT(u8, keys->bytes + ends[last]), size)) LEAVE(KEY);
        p = blanks(p);
        if (*p != ':') LEAVE(SYNTAX);
        if (!(p = value(blanks(p + 1), items, depth + 1)) || !(p = comma(p, '}', &more))) return p;
    }
    return append_end(d, 1, keys->rows), p;
}

static u8 *list(u8 *p, Node *d, u32 depth) {
    Node *items = NODE(d->first);
    u32 more = 1;
    if (*p != '[') LEAVE(WRONG_KIND);
    if (depth > MAX_DEPTH) LEAVE(DEPTH);
    p = blanks(p + 1);
    if (*p == ']') more = 0, p++;
    while (more) if (!(p = value(p, items, depth + 1)) || !(p = comma(p, ']', &more))) return p;
    return append_end(d, 1, items->rows), p;
}

static u8 *value(u8 *p, Node *d, u32 depth) {
    if (*p == 'n') {
        if (!(p = literal(p, NULL_)) || !append_null(d)) return 0;
        return p;
    }
    switch (d->kind) {
    case STRUCT: return object(p, d, depth);
    case LIST: return list(p, d, depth);
    case MAP: return map(p, d, depth);
    case LONG: case INT: return integer(p, d);
    case DOUBLE: case FLOAT: return floating(p, d);
    case BOOLEAN: {
        u8 is = *p == 't', *end = is ? literal(p, TRUE_) : *p == 'f' ? literal(p + 1, ALSE) : 0;
        if (!end) LEAVE(WRONG_KIND);
        return *(u8 *)append(d, 1) = is, end;
    }
    case TEXT: case FIXED: return text(p, d);
    case UUID: return uuid(p, d);
    case DECIMAL: return decimal(p, d);
    default: return moment(p, d);
    }
}

static void pack(u8 *bytes, u32 count) { /* bytes of 0 and 1 to bits, in their place; eight more are there */
    __builtin_memset(bytes + count, 0, 8);
    for (u32 i = 0; i < count; i += 8) bytes[i / 8] = (u8)((word(bytes + i) * 0x0102040810204080ull) >> 56);
}

static void begin(Node *d, u32 rows, u32 most, u32 is_top) {
    u64 text = (u64)d->expected_bytes * rows / 16, room = is_top ? rows : (u64)d->expected_rows * rows / 16;
    d->rows = d->room = d->valid = d->data = d->bytes = d->bytes_size = d->bytes_room = d->next = d->nulls = 0;
    make_room(d, (room < most ? (u32)room : most) + 1); /* an item or a letter is a byte at least */
    if (d->kind == TEXT) d->bytes_room = (text < most ? (u32)text : most) + 64, d->bytes = take(d->bytes_room);
    if (d->kind == TEXT || d->kind == LIST || d->kind == MAP) *AT(u32, d->data) = 0;
    for (u32 i = 0; i < d->count; i++) begin(NODE(d->first + i), rows, most, is_top && d->kind == STRUCT);
}

/* Read `count` records of `values`, `ends` being where they end; the columns end at `arena` then. `status` gets
 * a record's reason, TAKEN of those that are rows, in their order. */
__attribute__((export_name("decode"))) void decode(void) {
    u32 count = s.count, values = s.values, ends = s.ends, status = s.status;
    Node *top = NODE(0);
    s.ignored_size = 0;
    begin(top, count, count ? AT(u32, ends)[count - 1] : 0, 1);
    u8 *p = AT(u8, values);
    for (u32 i = 0; i < count; i++) {
        u8 *end = AT(u8, values + AT(u32, ends)[i]), saved = *end;
        u32 row = top->rows, names = s.ignored_size;
        *end = 0; /* which no JSON has: nothing is read beyond it */
        s.stack_size = s.noted_size = 0;
        end_of_record = end;
        u8 *after = object(blanks(p), top, 1);
        if (after && blanks(after) != end) s.reason = SYNTAX, after = 0;
        AT(u8, status)[i] = after ? TAKEN : (u8)s.reason;
        if (!after) {
            cut(top, row);
            while (s.noted_size) ignored[noted[--s.noted_size]].count--;
            s.ignored_size = names;
        }
        *end = saved, p = end;
    }
    for (u32 i = 0; i < s.node_count; i++) {
        Node *d = NODE(i);
        if (d->kind == SKIPPED) continue;
        d->expected_rows = (u32)((u64)d->rows * 20 / count), d->expected_bytes = (u32)((u64)d->bytes_size * 20 / count);
        for (u32 r = 0; r < d->rows; r++) d->nulls += !AT(u8, d->valid)[r];
        pack(AT(u8, d->valid), d->rows);
        if (d->kind == BOOLEAN) pack(AT(u8, d->data), d->rows);
    }
}
