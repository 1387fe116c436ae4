/*
 * dyntrace/marker.h - put static markers into a program or library.
 *
 *	#include <dyntrace/marker.h>
 *
 *	DYNTRACE_MARKER(shop, order_placed, order->id, order->total, customer->name);
 *
 *	$ dyntrace list-markers ./server
 *	$ dyntrace trace -p server --marker shop:order_placed -t 'string:name:arg2'
 *
 * A marker is one nop and a note of the format that <sys/sdt.h> has (SDT, "stapsdt"): gdb, perf,
 * bpftrace and systemtap know it, too. It needs no package and nothing to link with. Nobody traces
 * it: it costs the nop, and that its arguments are computed.
 *
 * Up to 12 arguments: integers, enums, pointers, float, double. They are recorded as arg0, arg1...
 * with their types.
 *
 * Arguments that cost something are computed only while somebody traces the marker, if it has a
 * semaphore. Each such marker needs, once in the program or library, outside of functions:
 *
 *	DYNTRACE_MARKER_SEMAPHORE(shop, stock_level);
 *
 * and then, anywhere in that file (DYNTRACE_MARKER_DECLARE in other files):
 *
 *	DYNTRACE_GUARDED_MARKER(shop, stock_level, count_all_items());
 *	if (DYNTRACE_MARKER_ENABLED(shop, stock_level)) ...
 *
 * C (C99 and later, with GNU or clang) and C++ (C++11 and later), x86-64.
 */
#ifndef DYNTRACE_MARKER_H
#define DYNTRACE_MARKER_H

#if !defined(__x86_64__) || !defined(__GNUC__)
#error "dyntrace/marker.h is for x86-64, and for compilers that know GNU's asm"
#endif

/* DYNTRACE_MARKER(provider, name, arguments...) */
#define DYNTRACE_MARKER(provider, ...)                                                             \
	DYNTRACE_MARKER_PICK_(__VA_ARGS__)(provider, DYNTRACE_MARKER_ALWAYS_, __VA_ARGS__)

/* ---- markers with a semaphore ---------------------------------------------------------------- */

/* The tracer counts the semaphore up while it traces. */
#ifdef __cplusplus
#define DYNTRACE_MARKER_C_ extern "C"
#else
#define DYNTRACE_MARKER_C_ extern
#endif
#define DYNTRACE_MARKER_DECLARE(provider, name)                                                    \
	DYNTRACE_MARKER_C_ __attribute__((visibility("hidden"))) unsigned short                    \
		provider##_##name##_semaphore
#define DYNTRACE_MARKER_SEMAPHORE(provider, name)                                                  \
	DYNTRACE_MARKER_DECLARE(provider, name);                                                   \
	__attribute__((section(".probes"), used)) unsigned short provider##_##name##_semaphore

#define DYNTRACE_MARKER_ENABLED(provider, name)                                                    \
	(__builtin_expect(*(volatile unsigned short *)&provider##_##name##_semaphore, 0) != 0)
/* DYNTRACE_GUARDED_MARKER(provider, name, arguments...) */
#define DYNTRACE_GUARDED_MARKER(provider, ...)                                                     \
	do {                                                                                       \
		if (DYNTRACE_MARKER_IS_ON_(provider, DYNTRACE_MARKER_FIRST_(__VA_ARGS__, 0)))      \
			DYNTRACE_MARKER_PICK_(__VA_ARGS__)                                         \
			(provider, DYNTRACE_MARKER_GUARDED_, __VA_ARGS__);                         \
	} while (0)

#define DYNTRACE_MARKER_FIRST_(first, ...) first
#define DYNTRACE_MARKER_IS_ON_(provider, name) DYNTRACE_MARKER_ENABLED(provider, name)

/* ---- types of arguments ---------------------------------------------------------------------- */

/* In a register: the note couldn't name a constant in memory. */
static inline __attribute__((always_inline, unused)) float dyntrace_marker_float_(float value)
{
	__asm__("" : "+x"(value));
	return value;
}
static inline __attribute__((always_inline, unused)) double dyntrace_marker_double_(double value)
{
	__asm__("" : "+x"(value));
	return value;
}

/* The kind of an argument is its size, negative if it is signed; 104 and 108 are floats. */
#ifdef __cplusplus
extern "C++" {
template <typename T, bool is_enum> struct dyntrace_marker_kind_ {
	enum { kind = sizeof(T) };
};
template <typename T> struct dyntrace_marker_kind_<T, true> {
	enum { kind = dyntrace_marker_kind_<__underlying_type(T), false>::kind };
};
#define DYNTRACE_MARKER_KIND_OF_(type, number)                                                     \
	template <> struct dyntrace_marker_kind_<type, false> {                                    \
		enum { kind = number };                                                            \
	};
DYNTRACE_MARKER_KIND_OF_(char, char(-1) < 0 ? -1 : 1)
DYNTRACE_MARKER_KIND_OF_(signed char, -1)
DYNTRACE_MARKER_KIND_OF_(short, -2)
DYNTRACE_MARKER_KIND_OF_(int, -4)
DYNTRACE_MARKER_KIND_OF_(long, -8)
DYNTRACE_MARKER_KIND_OF_(long long, -8)
DYNTRACE_MARKER_KIND_OF_(float, 104)
DYNTRACE_MARKER_KIND_OF_(double, 108)
#undef DYNTRACE_MARKER_KIND_OF_
/* By value: an array becomes a pointer. */
template <typename T> inline constexpr T dyntrace_marker_value_(T value) noexcept
{
	static_assert(sizeof(T) <= 8, "an argument of a marker has at most 8 bytes");
	return value;
}
inline float dyntrace_marker_value_(float value) noexcept
{
	return dyntrace_marker_float_(value);
}
inline double dyntrace_marker_value_(double value) noexcept
{
	return dyntrace_marker_double_(value);
}
template <typename T>
inline constexpr dyntrace_marker_kind_<T, __is_enum(T)> dyntrace_marker_type_(T) noexcept
{
	return {};
}
}
#define DYNTRACE_MARKER_VALUE_(x) dyntrace_marker_value_(x)
#define DYNTRACE_MARKER_KIND_(x) decltype(dyntrace_marker_type_(x))::kind
#else
#define DYNTRACE_MARKER_PLAIN_(x) ((void)0, (x)) /* an array becomes a pointer */
#define DYNTRACE_MARKER_IF_(type, x, otherwise)                                                    \
	_Generic(DYNTRACE_MARKER_PLAIN_(x), type: (x), default: otherwise)
#define DYNTRACE_MARKER_VALUE_(x)                                                                  \
	(__extension__ _Generic(DYNTRACE_MARKER_PLAIN_(x),                                         \
		float: dyntrace_marker_float_(DYNTRACE_MARKER_IF_(float, x, 0)),                   \
		double: dyntrace_marker_double_(DYNTRACE_MARKER_IF_(double, x, 0)),                \
		default: DYNTRACE_MARKER_PLAIN_(x)))
#define DYNTRACE_MARKER_SIZE_(x) ((int)sizeof(__typeof__(DYNTRACE_MARKER_PLAIN_(x))))
#define DYNTRACE_MARKER_KIND_(x)                                                                   \
	(__extension__ _Generic(DYNTRACE_MARKER_PLAIN_(x),                                         \
		char: (char)-1 < 0 ? -1 : 1,                                                       \
		signed char: -1,                                                                   \
		short: -2,                                                                         \
		int: -4,                                                                           \
		long: -8,                                                                          \
		long long: -8,                                                                     \
		float: 104,                                                                        \
		double: 108,                                                                       \
		default: (int)sizeof(char[DYNTRACE_MARKER_SIZE_(x) > 8 ?                           \
						  -1 :                                             \
						  DYNTRACE_MARKER_SIZE_(x)])))
#endif

/* ---- the note -------------------------------------------------------------------------------- */

/* By the number of arguments after the name. */
#define DYNTRACE_MARKER_PICK_(...)                                                                 \
	DYNTRACE_MARKER_LAST_(__VA_ARGS__, DYNTRACE_MARKER_12_, DYNTRACE_MARKER_11_,               \
			      DYNTRACE_MARKER_10_, DYNTRACE_MARKER_9_, DYNTRACE_MARKER_8_,         \
			      DYNTRACE_MARKER_7_, DYNTRACE_MARKER_6_, DYNTRACE_MARKER_5_,          \
			      DYNTRACE_MARKER_4_, DYNTRACE_MARKER_3_, DYNTRACE_MARKER_2_,          \
			      DYNTRACE_MARKER_1_, DYNTRACE_MARKER_0_, 0)
#define DYNTRACE_MARKER_LAST_(name, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, last, ...)   \
	last

/* The address of the semaphore. */
#define DYNTRACE_MARKER_ALWAYS_(provider, name) "0"
#define DYNTRACE_MARKER_GUARDED_(provider, name) #provider "_" #name "_semaphore"

/* 990 is the marker's address, 991 to 994 enclose the note's name and contents. "?" puts the note
 * into the function's section group, so that both are dropped together. All notes tell where the
 * linker has put one byte, so that readers notice when the file was moved later. */
#define DYNTRACE_MARKER_NOTE_(provider, semaphore, name, arguments, ...)                           \
	__asm__ __volatile__("990:	nop\n"                                                     \
			     ".pushsection .note.stapsdt, \"?\", \"note\"\n"                      \
			     ".balign 4\n"                                                         \
			     ".4byte 992f - 991f, 994f - 993f, 3\n"                                \
			     "991:	.asciz \"stapsdt\"\n"                                      \
			     "992:	.balign 4\n"                                               \
			     "993:	.8byte 990b, _.stapsdt.base, " semaphore(provider, name) "\n" \
			     ".asciz \"" #provider "\", \"" #name "\"\n" arguments                 \
			     ".byte 0\n"                                                           \
			     "994:	.balign 4\n"                                               \
			     ".popsection\n"                                                       \
			     ".ifndef _.stapsdt.base\n"                                            \
			     ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, "    \
			     "comdat\n"                                                            \
			     ".weak _.stapsdt.base\n"                                              \
			     ".hidden _.stapsdt.base\n"                                            \
			     "_.stapsdt.base:	.space 1\n"                                        \
			     ".size _.stapsdt.base, 1\n"                                           \
			     ".popsection\n"                                                       \
			     ".endif\n" ::__VA_ARGS__)

/* Argument `i` of the note's text: KIND@OPERAND. */
#define DYNTRACE_MARKER_ARGUMENT_(i)                                                               \
	".if %c[kind" #i "] == 104\n.ascii \"4f@\"\n"                                              \
	".elseif %c[kind" #i "] == 108\n.ascii \"8f@\"\n"                                          \
	".else\n.ascii \"%c[kind" #i "]@\"\n.endif\n"                                             \
	".ascii \"%[value" #i "]\"\n"
#define DYNTRACE_MARKER_NEXT_(i) ".ascii \" \"\n" DYNTRACE_MARKER_ARGUMENT_(i)
#define DYNTRACE_MARKER_OPERAND_(i, x)                                                             \
	[kind##i] "n"(DYNTRACE_MARKER_KIND_(x)), [value##i] "nor"(DYNTRACE_MARKER_VALUE_(x))

#define DYNTRACE_MARKER_0_(provider, semaphore, name)                                              \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, "", )
#define DYNTRACE_MARKER_TEXT_1_ DYNTRACE_MARKER_ARGUMENT_(0)
#define DYNTRACE_MARKER_1_(provider, semaphore, name, x0)                                          \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_1_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0))
#define DYNTRACE_MARKER_TEXT_2_ DYNTRACE_MARKER_TEXT_1_ DYNTRACE_MARKER_NEXT_(1)
#define DYNTRACE_MARKER_2_(provider, semaphore, name, x0, x1)                                      \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_2_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1))
#define DYNTRACE_MARKER_TEXT_3_ DYNTRACE_MARKER_TEXT_2_ DYNTRACE_MARKER_NEXT_(2)
#define DYNTRACE_MARKER_3_(provider, semaphore, name, x0, x1, x2)                                  \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_3_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2))
#define DYNTRACE_MARKER_TEXT_4_ DYNTRACE_MARKER_TEXT_3_ DYNTRACE_MARKER_NEXT_(3)
#define DYNTRACE_MARKER_4_(provider, semaphore, name, x0, x1, x2, x3)                              \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_4_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3))
#define DYNTRACE_MARKER_TEXT_5_ DYNTRACE_MARKER_TEXT_4_ DYNTRACE_MARKER_NEXT_(4)
#define DYNTRACE_MARKER_5_(provider, semaphore, name, x0, x1, x2, x3, x4)                          \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_5_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3),    \
			      DYNTRACE_MARKER_OPERAND_(4, x4))
#define DYNTRACE_MARKER_TEXT_6_ DYNTRACE_MARKER_TEXT_5_ DYNTRACE_MARKER_NEXT_(5)
#define DYNTRACE_MARKER_6_(provider, semaphore, name, x0, x1, x2, x3, x4, x5)                      \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_6_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3),    \
			      DYNTRACE_MARKER_OPERAND_(4, x4), DYNTRACE_MARKER_OPERAND_(5, x5))
#define DYNTRACE_MARKER_TEXT_7_ DYNTRACE_MARKER_TEXT_6_ DYNTRACE_MARKER_NEXT_(6)
#define DYNTRACE_MARKER_7_(provider, semaphore, name, x0, x1, x2, x3, x4, x5, x6)                  \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_7_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3),    \
			      DYNTRACE_MARKER_OPERAND_(4, x4), DYNTRACE_MARKER_OPERAND_(5, x5),    \
			      DYNTRACE_MARKER_OPERAND_(6, x6))
#define DYNTRACE_MARKER_TEXT_8_ DYNTRACE_MARKER_TEXT_7_ DYNTRACE_MARKER_NEXT_(7)
#define DYNTRACE_MARKER_8_(provider, semaphore, name, x0, x1, x2, x3, x4, x5, x6, x7)              \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_8_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3),    \
			      DYNTRACE_MARKER_OPERAND_(4, x4), DYNTRACE_MARKER_OPERAND_(5, x5),    \
			      DYNTRACE_MARKER_OPERAND_(6, x6), DYNTRACE_MARKER_OPERAND_(7, x7))
#define DYNTRACE_MARKER_TEXT_9_ DYNTRACE_MARKER_TEXT_8_ DYNTRACE_MARKER_NEXT_(8)
#define DYNTRACE_MARKER_9_(provider, semaphore, name, x0, x1, x2, x3, x4, x5, x6, x7, x8)          \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_9_,                  \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3),    \
			      DYNTRACE_MARKER_OPERAND_(4, x4), DYNTRACE_MARKER_OPERAND_(5, x5),    \
			      DYNTRACE_MARKER_OPERAND_(6, x6), DYNTRACE_MARKER_OPERAND_(7, x7),    \
			      DYNTRACE_MARKER_OPERAND_(8, x8))
#define DYNTRACE_MARKER_TEXT_10_ DYNTRACE_MARKER_TEXT_9_ DYNTRACE_MARKER_NEXT_(9)
#define DYNTRACE_MARKER_10_(provider, semaphore, name, x0, x1, x2, x3, x4, x5, x6, x7, x8,         \
			   x9)                                                                     \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_10_,                 \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3),    \
			      DYNTRACE_MARKER_OPERAND_(4, x4), DYNTRACE_MARKER_OPERAND_(5, x5),    \
			      DYNTRACE_MARKER_OPERAND_(6, x6), DYNTRACE_MARKER_OPERAND_(7, x7),    \
			      DYNTRACE_MARKER_OPERAND_(8, x8), DYNTRACE_MARKER_OPERAND_(9, x9))
#define DYNTRACE_MARKER_TEXT_11_ DYNTRACE_MARKER_TEXT_10_ DYNTRACE_MARKER_NEXT_(10)
#define DYNTRACE_MARKER_11_(provider, semaphore, name, x0, x1, x2, x3, x4, x5, x6, x7, x8,         \
			   x9, x10)                                                                \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_11_,                 \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3),    \
			      DYNTRACE_MARKER_OPERAND_(4, x4), DYNTRACE_MARKER_OPERAND_(5, x5),    \
			      DYNTRACE_MARKER_OPERAND_(6, x6), DYNTRACE_MARKER_OPERAND_(7, x7),    \
			      DYNTRACE_MARKER_OPERAND_(8, x8), DYNTRACE_MARKER_OPERAND_(9, x9),    \
			      DYNTRACE_MARKER_OPERAND_(10, x10))
#define DYNTRACE_MARKER_TEXT_12_ DYNTRACE_MARKER_TEXT_11_ DYNTRACE_MARKER_NEXT_(11)
#define DYNTRACE_MARKER_12_(provider, semaphore, name, x0, x1, x2, x3, x4, x5, x6, x7, x8,         \
			   x9, x10, x11)                                                           \
	DYNTRACE_MARKER_NOTE_(provider, semaphore, name, DYNTRACE_MARKER_TEXT_12_,                 \
			      DYNTRACE_MARKER_OPERAND_(0, x0), DYNTRACE_MARKER_OPERAND_(1, x1),    \
			      DYNTRACE_MARKER_OPERAND_(2, x2), DYNTRACE_MARKER_OPERAND_(3, x3),    \
			      DYNTRACE_MARKER_OPERAND_(4, x4), DYNTRACE_MARKER_OPERAND_(5, x5),    \
			      DYNTRACE_MARKER_OPERAND_(6, x6), DYNTRACE_MARKER_OPERAND_(7, x7),    \
			      DYNTRACE_MARKER_OPERAND_(8, x8), DYNTRACE_MARKER_OPERAND_(9, x9),    \
			      DYNTRACE_MARKER_OPERAND_(10, x10), DYNTRACE_MARKER_OPERAND_(11, x11))

#endif
