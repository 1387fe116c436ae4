/*
 * returns.h - calls whose exits are recorded: the mapping `returns` (layout.h), private to each
 * process, copied by fork. A change here raises DT_LAYOUT_VERSION.
 *
 * A call whose exit is recorded returns through a stub of its own. Stub i is DT_STUB_SIZE bytes of
 * code at dt_control.stubs; the stubs differ only in i:
 *
 *	stub:	call [slot i .body]	target of the entry trampoline, return address popped
 *	landing: push i
 *		jmp  [slot i .exit]	records, and returns to slot i .ra
 *
 * (R1) The first use of a stub binds it to a return address and a tracepoint, for life (H5).
 *      Whatever the program does with the word on its stack, it returns to the right place.
 * (R2) slot.sp is one of:
 *      0: no call is known.
 *      An address: in use. The word there is the stub, its landing or its index, or that of another
 *      stub in use at the same address that returns to it (a tail call); else the frame is gone.
 *      An address | DT_RETURN_BUSY: just taken by the slow path; no thread judges it.
 *      An address | DT_RETURN_INHERITED: in a forked child, a call of its parent. It returns like
 *      any call, but records nothing.
 * (R3) slot.use is -1 while the stub is free. Only the thread that owns the table takes a stub of
 *      it, by one instruction that adds 1, without a lock. If the result isn't 0 the thread hasn't
 *      got the stub, and subtracts 1 again. A thread that returns through the stub gives it back by
 *      subtracting 1. A signal handler in between finds it taken, or leaves it as it was. Two
 *      threads that interfere (a coroutine returns on another thread) can at worst make a free stub
 *      look taken for ever. sp is stored after the taking, and cleared before the giving back.
 * (R4) dt_return_table.hints are hints: a stub that a hint names is checked before it is believed.
 *      So a signal handler, a coroutine on another thread or a longjmp can leave them wrong at any
 *      moment.
 * (R5) Chains (stubs of one key and table) only grow, and tables are never freed. To remove a
 *      tracepoint the controller stops all threads, clears the body of its stubs, makes them
 *      unavailable, and sets DT_RETURN_RETIRED in the lengths of their chains. When the tracepoint
 *      comes back, under the same id, a call that wants a stub gives it a body again.
 * (R6) A return address stays as it is if its code was compiled at run time or has its own way to
 *      walk over frames: a garbage collector looks up its frames by it (seen: a JVM aborts). Only
 *      addresses in dt_control.callers, and stubs (a tail call), get a stub.
 * (R7) A program that moves stacks away and back (greenlet) has calls whose frames only seem to be
 *      gone. Such a call returns through a free stub: from then on (dt_returns.stray) that process
 *      takes no stub from a call that has not returned.
 * (R8) Unwinders don't see stubs. libgcc's frames are without them (target/find.c); LLVM's
 *      libunwind gets a table by which a stub has its caller's stack pointer. A personality routine
 *      may compute an address from the CFA (seen: LuaJIT).
 * (R9) A call that (R6) leaves alone has a late stub, if its tracepoint has a probe at each end of
 *      the function (DT_SITE_LATE): the return address stays as it is until the function's `ret`,
 *      where the probe puts the stub's landing there. Late stubs aren't bound: the chain, by
 *      dt_late_index, is that of the place on the stack, and any thread takes a free slot of it by
 *      cmpxchg. While sp is set, the word at the place is slot.ra, the landing or the index; else
 *      the frame is gone. A new call with the same place and tracepoint shows that, too. At a jump
 *      out of the function the call is given up, and counted as missed: its result isn't known
 *      there.
 * (R10) A tracepoint whose exit decides whether the call is recorded at all writes no event at the
 *      entry. The entry stores its fields beside the stub (dt_return_times.values), as an image
 *      (program.h) whose first word is its size in bytes, for ever. The exit writes both as one
 *      event of the pool, a pair: see program.h. A stub without room for the values isn't taken.
 * (R11) A Go function's calls (DT_SITE_GO) have late stubs only, and no place: goroutines' stacks
 *      move. Such a call is known by its goroutine, the address of Go's struct g, which stays, and
 *      the distance of its return address from the stack's upper end, which a move keeps: slot.sp
 *      is the first, slot.tail the second (dt_go_depth). In other late stubs slot.tail is 0.
 * (R12) The stubs and the code that all exits share stay mapped while a thread is in them, or will
 *      return to them from a signal's handler.
 */
#ifndef DYNTRACE_RETURNS_H
#define DYNTRACE_RETURNS_H

#include "layout.h"

#define DT_STUB_SIZE 32u
#define DT_STUB_SHIFT 5
#define DT_STUB_LANDING 6u /* offset of the landing */
#define DT_STUBS_MAX 131072u
/* stubs written at the start; more when half of them are in use */
#define DT_STUBS_FIRST 16384u
#define DT_RETURN_SHIFT 6
#define DT_RETURN_BUSY 1ULL
#define DT_RETURN_INHERITED (1ULL << 63)
#define DT_RETURN_MARKS (DT_RETURN_BUSY | DT_RETURN_INHERITED)
/* dt_return_site.flags: the exit needs struct dt_return_times; and << DT_TIMED_KEYS: the number of
 * keys, of which each has a word `within` */
#define DT_TIMED 1u
#define DT_TIMED_KEYS 8 /* above DT_SITE_* */
#define DT_KEPT_MAX 8u
#define DT_KEPT_DURATION 7u /* index of the duration, which the exit computes: ns */
#define DT_RETURN_VANISHED (1u << 31) /* in slot.length: a frame was gone without returning */
#define DT_RETURN_RETIRED (1u << 30) /* in slot.length: stubs of the chain may be retired (R5) */
#define DT_RETURN_LATE (1u << 29) /* slot.length of a late stub (R9) */

struct dt_return_slot {
	uint64_t ra; /* bound: return address; 0: not bound yet */
	uint64_t body; /* bound: the function, after the recording of its entry; 0: retired (R5) */
	uint64_t exit; /* bound: code that records the exit */
	uint64_t start; /* clock at entry */
	uint64_t sp; /* (R2) */
	/* bound: offset of its table's hint in struct dt_returns; an exit sets the hint to this
	 * stub */
	uint32_t hint;
	/* bound: slot of the thread that takes it, as an offset in dt_state.slots, in units of 8
	 * bytes */
	uint16_t thread;
	int16_t use; /* (R3) */
	uint32_t next; /* in the chain; 0: the last */
	uint32_t id; /* bound: of the entry event; the exit's is the next one */
	uint32_t tail; /* in the chain's first stub: index of its last; a late stub: (R11) */
	/* in the chain's first stub: number of stubs; DT_RETURN_VANISHED, DT_RETURN_RETIRED */
	uint32_t length;
};

_Static_assert(sizeof(struct dt_return_slot) == (1u << DT_RETURN_SHIFT), "dt_return_slot");
_Static_assert(DT_STUB_SIZE == (1u << DT_STUB_SHIFT), "DT_STUB_SIZE");
_Static_assert(DT_KEPT_MAX * 8 == 1u << DT_RETURN_SHIFT, "kept");
_Static_assert(DT_SLOTS * sizeof(struct dt_slot) / 8 <= 1u << 16, "dt_return_slot.thread");

/*
 * Times of calls that are counted in the target. A thread has a word `covered`: the time of its
 * calls that have returned; and per tracepoint a word `within`: the time with at least one call of
 * the function on the stack. An entry keeps both. The exit sets each to the kept value plus its own
 * duration: the time of calls inside it, which they had added, is in that duration. Calls that
 * never return change nothing, and so can't make another call's times wrong.
 */
struct dt_return_times {
	uint64_t within, covered; /* bound: addresses of the words */
	uint64_t within_before, covered_before; /* kept by the entry */
	uint64_t own; /* the word `within` if memory for another ran out */
	uint64_t key; /* by key: the index (keys.h); `within` is an array then, 0: no memory */
	uint64_t value; /* at the exit: the value to sum up */
	/* bound, with dt_return_site.values: address of the entry's values (R10) */
	uint64_t values;
};

/* A word `within`. */
struct dt_return_within {
	uint64_t time; /* by key: address of an array; 0: no memory */
	uint32_t id; /* of the entry event */
	uint32_t keys; /* of the array; 0: `time` is a time */
};

/* One per thread: hints[], by dt_return_index, then heads[], the first stub of each chain (open
 * addressing), then withins[], offsets of struct dt_return_within by id (likewise). */
struct dt_return_table {
	uint32_t bits; /* all arrays have 1 << bits entries */
	uint32_t keys; /* used entries of heads */
	uint32_t spare, spares; /* offset of unused struct dt_return_within, and how many */
	uint32_t hints[];
};

/* A table's place and bits in one word: offset from the start of struct dt_returns | bits. */
#define DT_RETURN_TABLE_ALIGN 64u

#define DT_RETURN_TABLE_FIRST 7u /* bits */
#define DT_RETURN_TABLE_MAX 18u
#define DT_RETURN_HEAP_SIZE (40u << 20) /* for tables, and words `within` */

/* Index of a key's hint among 1 << bits; trampolines compute the same. */
#define DT_RETURN_MULTIPLIER 0x2c1b3c6du
#define DT_RETURN_ID_MULTIPLIER 0x9e3779b1u
static inline uint32_t dt_return_index(uint64_t ra, uint32_t id, uint32_t bits)
{
	uint32_t hash = (uint32_t)ra * DT_RETURN_MULTIPLIER + id * DT_RETURN_ID_MULTIPLIER;

	return (uint32_t)(((uint64_t)hash << bits) >> 32);
}

/* Index of the chain of late stubs for a place on the stack (R9). */
#define DT_LATE_BITS 13u
static inline uint32_t dt_late_index(uint64_t place, uint32_t id)
{
	uint32_t hash = (uint32_t)(place >> 3) * DT_RETURN_MULTIPLIER;

	hash += id * DT_RETURN_ID_MULTIPLIER;
	return hash >> (32 - DT_LATE_BITS);
}

/* Go's struct g begins with the bounds of the goroutine's stack; r14 is its address. */
#define DT_GO_STACK_END 8u
/* slot.tail of a call (R11): the words between its return address and the stack's end; odd. */
static inline uint32_t dt_go_depth(uint64_t stack_end, uint64_t place)
{
	return (uint32_t)((stack_end - place) >> 3) << 1 | 1;
}

/* The place of the return address, as the stack is now. */
static inline uint64_t dt_go_place(uint64_t stack_end, uint32_t depth)
{
	return stack_end - ((uint64_t)(depth >> 1) << 3);
}

struct dt_returns {
	/* zeroes: the table of threads without a table. Its only hint: */
	struct dt_return_table none;
	uint64_t no_hints;
	uint32_t used; /* stubs ever bound, plus stub 0, which never is */
	uint32_t heap_used;
	uint32_t rebuilding; /* a forked child releases stubs of threads that it hasn't */
	/* owner of the stubs in use; another in a forked child until its first hit */
	uint32_t pid;
	uint64_t stray; /* number of returns through free stubs (R7) */
	uint32_t late_hint; /* late stubs have no hint: exits write theirs here */
	uint32_t pad;
	uint64_t mark; /* DT_PRIVATE_MARK: the memory is mapped, and copied by fork */
	/* memory for the notes of the target's unwinders */
	uint64_t objects[DT_UNWINDERS_MAX][8];
	uint32_t tables[DT_SLOTS]; /* by thread slot; 0: `none` */
	uint64_t covered[DT_SLOTS]; /* by thread slot: struct dt_return_times */
	uint32_t late[1u << DT_LATE_BITS]; /* the first stub of each chain of late stubs (R9) */
	/* One cache line each, since stubs of two threads are neighbours. */
	struct dt_return_slot slots[DT_STUBS_MAX] __attribute__((aligned(64)));
	/* By stub: values that the entry keeps for the exit. As large as a slot, so that the
	 * distance from each slot to its words is the same. */
	uint64_t kept[DT_STUBS_MAX][DT_KEPT_MAX];
	struct dt_return_times times[DT_STUBS_MAX]; /* likewise */
	uint8_t heap[DT_RETURN_HEAP_SIZE] __attribute__((aligned(DT_RETURN_TABLE_ALIGN)));
};

_Static_assert(sizeof(struct dt_return_times) == 1u << DT_RETURN_SHIFT, "times");
_Static_assert(offsetof(struct dt_returns, slots) % 64 == 0 &&
		       offsetof(struct dt_returns, kept) % 64 == 0 &&
		       offsetof(struct dt_returns, times) % 64 == 0,
	       "lines");

/* Distance from a slot to its kept word i. */
#define DT_KEPT_AT(i)                                                                              \
	(offsetof(struct dt_returns, kept) - offsetof(struct dt_returns, slots) + 8u * (i))
/* Distance from a slot to a field of its struct dt_return_times. */
#define DT_TIMES_AT(field)                                                                         \
	(offsetof(struct dt_returns, times) - offsetof(struct dt_returns, slots) +                 \
	 offsetof(struct dt_return_times, field))

/* Kinds of dt_return_site, in its flags beside DT_TIMED. */
#define DT_SITE_LATE 2u /* an entry: each end of the function has a probe (R9) */
#define DT_SITE_RETURN 4u /* a `ret` of the function */
#define DT_SITE_JUMP 8u /* a jump out of the function */
#define DT_SITE_AGAIN 16u /* an entry that may not be recorded: the call before it is over */
#define DT_SITE_GO 32u /* beside the others: of a Go function (R11) */

/* Argument of dt_slow: the tracepoint of a trampoline. */
struct dt_return_site {
	uint64_t body;
	uint64_t exit;
	uint32_t id;
	uint32_t flags; /* DT_TIMED, DT_SITE_*; DT_SITE_LATE changes while it is in use */
	uint32_t values; /* bytes that a stub needs for the entry's values (R10); 0: none */
	uint32_t pad;
};

#endif
