/*
 * dyntrace/probe.h - write a function that tracepoints call, in the traced program itself.
 *
 *	#include <dyntrace/probe.h>
 *
 *	DYNTRACE_EVENT(slow_read, DYNTRACE_STRING(path), DYNTRACE_UINT(bytes));
 *
 *	DYNTRACE_PROBE(on_read)
 *	{
 *		if (dyntrace_integer(hit, "bytes") > 4096)
 *			DYNTRACE_EMIT(hit, slow_read, dyntrace_string(hit, "path"),
 *				      dyntrace_integer(hit, "bytes"));
 *	}
 *
 *	$ cc -O2 -shared -fPIC -o libprobes.so probes.c
 *	$ dyntrace add -f server:read_file call ./libprobes.so:on_read
 *
 * The library links with nothing: everything goes through the `hit` that the function gets. C (C99
 * and later, GNU or clang) and C++ (C++11 and later).
 *
 * The function runs in the thread that hit the tracepoint, on that thread's stack, before the
 * instruction there. It changes no register, flag or vector register of the program, nor errno.
 * Several threads may call it at once, and signal handlers of the program may. The function must
 * not take a lock that its thread may hold already: in a tracepoint in malloc, or in a signal
 * handler, it must not call malloc.
 *
 * A hit inside such a function is counted, and calls no function. A function that gets SIGSEGV,
 * SIGBUS, SIGFPE, SIGILL or SIGABRT (an assertion, an exception that leaves it) isn't called any
 * more: the program goes on as if the function had returned, with the locks that it held.
 *
 * A hit, and everything reached from it, is valid until the function returns.
 */
#ifndef DYNTRACE_PROBE_H
#define DYNTRACE_PROBE_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with the layout of the structures here; a library of another version isn't loaded. */
#define DYNTRACE_PROBE_VERSION 1u

#ifndef DYNTRACE_PROBE_NO_VERSION
extern const uint32_t dyntrace_probe_version __attribute__((weak, visibility("default")));
const uint32_t dyntrace_probe_version __attribute__((used)) = DYNTRACE_PROBE_VERSION;
#endif

/* ---- the hit --------------------------------------------------------------------------------- */

/* Values at the tracepoint; at a function's exit rip is the return address. Read only. */
struct dyntrace_registers {
	uint64_t rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rip, rflags;
};

struct dyntrace_hit_point {
	uint32_t version; /* DYNTRACE_PROBE_VERSION */
	uint32_t is_exit; /* a function's exit, not its entry */
	uint64_t address; /* of the instruction */
	const char *name;
	void **user; /* a word for the function's use, NULL at first; one per process */
};

struct dyntrace_hit {
	const struct dyntrace_hit_point *tracepoint;
	/* Used by the functions below. Negative: failure. */
	long (*op)(const struct dyntrace_hit *hit, unsigned what, const void *from, void *to,
		   uint64_t size);
	struct dyntrace_registers registers;
};

/* The function's head: DYNTRACE_PROBE(name) { ... hit ... } */
#ifdef __cplusplus
#define DYNTRACE_PROBE(name)                                                                       \
	DYNTRACE_FUNCTION_ void name(const struct dyntrace_hit *hit                                \
				     __attribute__((unused))) noexcept
#define DYNTRACE_FUNCTION_ extern "C" __attribute__((visibility("default")))
#else
#define DYNTRACE_PROBE(name)                                                                       \
	__attribute__((visibility("default"))) void name(const struct dyntrace_hit *hit);          \
	void name(const struct dyntrace_hit *hit __attribute__((unused)))
#endif

enum dyntrace_op {
	DYNTRACE_OP_FIND,
	DYNTRACE_OP_READ,
	DYNTRACE_OP_EMIT,
	DYNTRACE_OP_VECTOR,
	DYNTRACE_OP_TID
};

/* ---- arguments and results ------------------------------------------------------------------- */

/* An integer or pointer argument by its number, from 0, at a function's first instruction. Structs
 * passed by value, and floating-point arguments, don't count. */
static inline uint64_t dyntrace_argument(const struct dyntrace_hit *hit, unsigned index)
{
	const struct dyntrace_registers *r = &hit->registers;

	switch (index) {
	case 0: return r->rdi;
	case 1: return r->rsi;
	case 2: return r->rdx;
	case 3: return r->rcx;
	case 4: return r->r8;
	case 5: return r->r9;
	default: return ((const uint64_t *)r->rsp)[index - 5];
	}
}

/* At a function's exit: its result, if that is an integer or a pointer. */
static inline uint64_t dyntrace_result(const struct dyntrace_hit *hit)
{
	return hit->registers.rax;
}

/* The thread's id, as from gettid. */
static inline int dyntrace_tid(const struct dyntrace_hit *hit)
{
	return (int)hit->op(hit, DYNTRACE_OP_TID, NULL, NULL, 0);
}

/* Copies memory that may be unmapped; gives the number of bytes read, from the start. */
static inline long dyntrace_read(const struct dyntrace_hit *hit, const void *from, void *to,
				 uint64_t size)
{
	return hit->op(hit, DYNTRACE_OP_READ, from, to, size);
}

/* ---- values by name -------------------------------------------------------------------------- */

/*
 * Arguments (of a tracepoint with -f or -e), contexts (-t), and at an exit `ret` and `duration`
 * (ns), by the names of the event's fields; members of structs as `outer_inner`.
 */
enum dyntrace_type {
	DYNTRACE_TYPE_INT,
	DYNTRACE_TYPE_UINT,
	DYNTRACE_TYPE_HEX,
	DYNTRACE_TYPE_FLOAT,
	DYNTRACE_TYPE_STRING,
	DYNTRACE_TYPE_SEQUENCE, /* of uint64_t: a backtrace */
};

struct dyntrace_value {
	uint32_t type; /* enum dyntrace_type */
	uint32_t size; /* of an element: 1, 2, 4, 8 */
	uint64_t count; /* of elements; of a string: its length */
	const void *data; /* may be unaligned; a string ends with a NUL */
};

/* 0: found. */
static inline int dyntrace_find(const struct dyntrace_hit *hit, const char *name,
				struct dyntrace_value *value)
{
	return (int)hit->op(hit, DYNTRACE_OP_FIND, name, value, sizeof(*value));
}

/* A number; 0 if none has that name. */
static inline int64_t dyntrace_integer(const struct dyntrace_hit *hit, const char *name)
{
	struct dyntrace_value value;
	uint64_t bits = 0;
	unsigned spare;

	if (dyntrace_find(hit, name, &value) || value.type >= DYNTRACE_TYPE_FLOAT || value.size > 8)
		return 0;
	memcpy(&bits, value.data, value.size);
	spare = 64 - 8 * value.size;
	return value.type == DYNTRACE_TYPE_INT ? (int64_t)(bits << spare) >> spare : (int64_t)bits;
}

/* A text; "" if none has that name. A text that couldn't be read says so: "(null)", "(unreadable
 * 0x1f)". */
static inline const char *dyntrace_string(const struct dyntrace_hit *hit, const char *name)
{
	struct dyntrace_value value;

	return !dyntrace_find(hit, name, &value) && value.type == DYNTRACE_TYPE_STRING ?
		       (const char *)value.data :
		       "";
}

#ifdef __SSE2__
/* The lower half of xmm0 to xmm15: floating-point arguments at a function's first instruction, the
 * result at its exit. */
static inline double dyntrace_argument_double(const struct dyntrace_hit *hit, unsigned index)
{
	double value = 0;

	hit->op(hit, DYNTRACE_OP_VECTOR, NULL, &value, index);
	return value;
}

/* Likewise for `float`. */
static inline float dyntrace_argument_float(const struct dyntrace_hit *hit, unsigned index)
{
	double bits = dyntrace_argument_double(hit, index);
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* A number as double; 0 if none has that name. */
static inline double dyntrace_double(const struct dyntrace_hit *hit, const char *name)
{
	struct dyntrace_value value;
	double wide = 0;
	float single = 0;

	if (dyntrace_find(hit, name, &value) || value.type != DYNTRACE_TYPE_FLOAT)
		return (double)dyntrace_integer(hit, name);
	if (value.size == sizeof(wide))
		memcpy(&wide, value.data, sizeof(wide));
	else
		memcpy(&single, value.data, sizeof(single));
	return value.size == sizeof(wide) ? wide : (double)single;
}
#endif

/* ---- events ---------------------------------------------------------------------------------- */

/*
 * DYNTRACE_EVENT(name, fields...) declares an event, outside of functions. DYNTRACE_EMIT(hit, name,
 * values...) writes one to the trace of the tracepoint, with one value per field, in their order.
 * Events have 1 to 16 fields; strings are cut at 256 bytes. 0: written, or counted as lost.
 */
#define DYNTRACE_EVENT_FIELDS_MAX 16u

struct dyntrace_event_field {
	const char *name; /* letters, digits and underscores */
	uint32_t type; /* DYNTRACE_TYPE_INT to DYNTRACE_TYPE_STRING */
	uint32_t size; /* of a number */
};

struct dyntrace_event_type {
	uint32_t version;
	uint32_t field_count;
	const char *name;
	const struct dyntrace_event_field *fields;
	uint64_t program; /* set by dyntrace; 0: not recorded */
};

/* The value for a field. */
struct dyntrace_word {
	uint64_t bits;
	uint64_t length; /* of a text */
	uint32_t type;
};

#define DYNTRACE_FIELD(name, type, size) { #name, type, size }
#define DYNTRACE_INT(name) DYNTRACE_FIELD(name, DYNTRACE_TYPE_INT, 8)
#define DYNTRACE_UINT(name) DYNTRACE_FIELD(name, DYNTRACE_TYPE_UINT, 8)
#define DYNTRACE_HEX(name) DYNTRACE_FIELD(name, DYNTRACE_TYPE_HEX, 8)
#define DYNTRACE_DOUBLE(name) DYNTRACE_FIELD(name, DYNTRACE_TYPE_FLOAT, 8)
#define DYNTRACE_STRING(name) DYNTRACE_FIELD(name, DYNTRACE_TYPE_STRING, 1)

#ifdef __cplusplus
#define DYNTRACE_EVENT_LINKAGE_ extern "C"
#else
#define DYNTRACE_EVENT_LINKAGE_ extern
#endif

#define DYNTRACE_EVENT(event, ...)                                                                 \
	static const struct dyntrace_event_field dyntrace_fields_##event[] = { __VA_ARGS__ };      \
	DYNTRACE_EVENT_LINKAGE_ __attribute__((visibility("default")))                             \
	struct dyntrace_event_type dyntrace_event_##event;                                         \
	__attribute__((used)) struct dyntrace_event_type dyntrace_event_##event = {                \
		DYNTRACE_PROBE_VERSION,                                                            \
		sizeof(dyntrace_fields_##event) / sizeof(dyntrace_fields_##event[0]), #event,      \
		dyntrace_fields_##event, 0                                                         \
	}

static inline struct dyntrace_word dyntrace_word_int(uint64_t value)
{
	struct dyntrace_word word = { value, 0, DYNTRACE_TYPE_INT };

	return word;
}

static inline struct dyntrace_word dyntrace_word_pointer(const volatile void *value)
{
	return dyntrace_word_int((uint64_t)(uintptr_t)value);
}

/* The text up to a NUL, at most `length` bytes. */
static inline struct dyntrace_word dyntrace_text(const char *text, uint64_t length)
{
	struct dyntrace_word word = { (uint64_t)(uintptr_t)text, length, DYNTRACE_TYPE_STRING };

	return word;
}

static inline struct dyntrace_word dyntrace_word_string(const char *text)
{
	return dyntrace_text(text, UINT64_MAX);
}

static inline struct dyntrace_word dyntrace_word_self(struct dyntrace_word word)
{
	return word;
}

#ifdef __SSE2__
static inline struct dyntrace_word dyntrace_word_double(double value)
{
	struct dyntrace_word word = { 0, 0, DYNTRACE_TYPE_FLOAT };

	memcpy(&word.bits, &value, sizeof(value));
	return word;
}

/* A number in the type of its field. */
static inline uint64_t dyntrace_convert(const struct dyntrace_event_field *field,
					const struct dyntrace_word *word)
{
	uint64_t bits = word->bits;
	double wide = 0;
	float single;

	if (word->type == DYNTRACE_TYPE_FLOAT)
		memcpy(&wide, &bits, sizeof(wide));
	if (field->type != DYNTRACE_TYPE_FLOAT)
		return word->type == DYNTRACE_TYPE_FLOAT ? (uint64_t)(int64_t)wide : bits;
	if (word->type != DYNTRACE_TYPE_FLOAT)
		wide = (double)(int64_t)bits;
	single = (float)wide;
	if (field->size == sizeof(single))
		memcpy(&bits, &single, sizeof(single));
	else
		memcpy(&bits, &wide, sizeof(wide));
	return bits;
}

static inline int dyntrace_emit(const struct dyntrace_hit *hit,
				const struct dyntrace_event_type *event,
				const struct dyntrace_word *words, unsigned count)
{
	uint64_t given[DYNTRACE_EVENT_FIELDS_MAX][2];
	unsigned i;

	if (count != event->field_count || count > DYNTRACE_EVENT_FIELDS_MAX)
		return -1;
	for (i = 0; i < count; i++) {
		if ((event->fields[i].type == DYNTRACE_TYPE_STRING) !=
		    (words[i].type == DYNTRACE_TYPE_STRING))
			return -1;
		given[i][0] = dyntrace_convert(&event->fields[i], &words[i]);
		given[i][1] = words[i].length;
	}
	return (int)hit->op(hit, DYNTRACE_OP_EMIT, event, given, count);
}
#endif

#ifdef __cplusplus
}

#define DYNTRACE_EMIT(hit, event, ...) dyntrace_emit_all(hit, &dyntrace_event_##event, __VA_ARGS__)

static inline dyntrace_word dyntrace_word_of(const char *text)
{
	return dyntrace_word_string(text);
}
static inline dyntrace_word dyntrace_word_of(const volatile void *pointer)
{
	return dyntrace_word_pointer(pointer);
}
static inline dyntrace_word dyntrace_word_of(double value)
{
	return dyntrace_word_double(value);
}
static inline dyntrace_word dyntrace_word_of(float value)
{
	return dyntrace_word_double(value);
}
static inline dyntrace_word dyntrace_word_of(dyntrace_word word)
{
	return word;
}
template <class T> static inline dyntrace_word dyntrace_word_of(T value)
{
	return dyntrace_word_int(static_cast<uint64_t>(value));
}
template <class T> static inline dyntrace_word dyntrace_word_of(T *pointer)
{
	return dyntrace_word_pointer(pointer);
}
static inline dyntrace_word dyntrace_word_of(char *text)
{
	return dyntrace_word_string(text);
}

template <class... T>
static inline int dyntrace_emit_all(const dyntrace_hit *hit, const dyntrace_event_type *event,
				    T... values)
{
	const dyntrace_word words[] = { dyntrace_word_of(values)... };

	return dyntrace_emit(hit, event, words, sizeof...(values));
}
#else
/* Cast pointers that are no texts to void *. */
#define DYNTRACE_WORD_(x)                                                                          \
	_Generic((x), char *: dyntrace_word_string, const char *: dyntrace_word_string, float: dyntrace_word_double, \
		 double: dyntrace_word_double, void *: dyntrace_word_pointer, const void *: dyntrace_word_pointer,   \
		 struct dyntrace_word: dyntrace_word_self, default: dyntrace_word_int)(x)

#define DYNTRACE_WORDS_1_(a) DYNTRACE_WORD_(a)
#define DYNTRACE_WORDS_2_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_1_(__VA_ARGS__)
#define DYNTRACE_WORDS_3_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_2_(__VA_ARGS__)
#define DYNTRACE_WORDS_4_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_3_(__VA_ARGS__)
#define DYNTRACE_WORDS_5_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_4_(__VA_ARGS__)
#define DYNTRACE_WORDS_6_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_5_(__VA_ARGS__)
#define DYNTRACE_WORDS_7_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_6_(__VA_ARGS__)
#define DYNTRACE_WORDS_8_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_7_(__VA_ARGS__)
#define DYNTRACE_WORDS_9_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_8_(__VA_ARGS__)
#define DYNTRACE_WORDS_10_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_9_(__VA_ARGS__)
#define DYNTRACE_WORDS_11_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_10_(__VA_ARGS__)
#define DYNTRACE_WORDS_12_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_11_(__VA_ARGS__)
#define DYNTRACE_WORDS_13_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_12_(__VA_ARGS__)
#define DYNTRACE_WORDS_14_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_13_(__VA_ARGS__)
#define DYNTRACE_WORDS_15_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_14_(__VA_ARGS__)
#define DYNTRACE_WORDS_16_(a, ...) DYNTRACE_WORD_(a), DYNTRACE_WORDS_15_(__VA_ARGS__)
#define DYNTRACE_PICK_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, words, ...) words
#define DYNTRACE_WORDS_(...)                                                                       \
	DYNTRACE_PICK_(__VA_ARGS__, DYNTRACE_WORDS_16_, DYNTRACE_WORDS_15_, DYNTRACE_WORDS_14_,    \
		       DYNTRACE_WORDS_13_, DYNTRACE_WORDS_12_, DYNTRACE_WORDS_11_,                 \
		       DYNTRACE_WORDS_10_, DYNTRACE_WORDS_9_, DYNTRACE_WORDS_8_,                   \
		       DYNTRACE_WORDS_7_, DYNTRACE_WORDS_6_, DYNTRACE_WORDS_5_, DYNTRACE_WORDS_4_, \
		       DYNTRACE_WORDS_3_, DYNTRACE_WORDS_2_, DYNTRACE_WORDS_1_, 0)                 \
	(__VA_ARGS__)
#define DYNTRACE_EMIT(hit, event, ...)                                                             \
	dyntrace_emit(hit, &dyntrace_event_##event,                                                \
		      (const struct dyntrace_word[]){ DYNTRACE_WORDS_(__VA_ARGS__) },              \
		      sizeof((const struct dyntrace_word[]){ DYNTRACE_WORDS_(__VA_ARGS__) }) /     \
			      sizeof(struct dyntrace_word))
#endif

#endif
