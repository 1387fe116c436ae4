/*
 * returns.h - calls whose exits are recorded: the mapping `returns` (layout.h), private to each
 * process, copied by fork. DT_LAYOUT_VERSION is for it, too.
 *
 * A call whose exit is to be recorded returns through a stub of its own. Stub i is DT_STUB_SIZE
 * bytes of code at dt_control.stubs, the same for all but for i:
 *
 *	stub:	call [slot i .body]	the entry trampoline jumps here, with the return address popped
 *	landing: push i
 *		jmp  [slot i .exit]	records, and returns to slot i .ra
 *
 * (R1) A stub is bound, when it is first used, to a return address and a tracepoint, and keeps both
 *      for life (H5). Whatever the program does with the word on its stack, it comes back to the
 *      right place.
 * (R2) slot.sp: 0, no call is known; an address, in use, and the word there is the stub, its
 *      landing or its index, or that of another stub in use at the same address that returns to it
 *      (a tail call): else the frame is gone; an address | DT_RETURN_BUSY, just taken by the slow
 *      path, and not to be judged; an address | DT_RETURN_INHERITED, in a forked child: its
 *      parent's call, to return as any but not to be recorded.
 * (R3) slot.use is -1 while the stub is free. Only the thread that owns the table takes a stub of
 *      it: by one instruction that adds 1, without a lock; who doesn't get 0 has not got it, and
 *      subtracts 1 again. Anybody who returns through it gives it back by subtracting 1. A signal
 *      handler in between finds it taken, or leaves it as it was; two threads that get in each
 *      other's way (a coroutine returns on another one) can at worst make a free stub look taken
 *      for ever. sp is stored behind the taking, and cleared before the giving back.
 * (R4) dt_return_table.hints are hints: what they name is looked at before it is believed. So a
 *      signal handler, a coroutine on another thread or a longjmp can leave them wrong at any
 *      moment.
 * (R5) Chains (stubs of one key and table) only grow, and tables are never freed. When a tracepoint
 *      is removed, its stubs lose their body and can't be taken, with all threads stopped, and
 *      their chains' lengths say DT_RETURN_RETIRED. When it is back, under the same id, those who
 *      want one give them a body again.
 * (R6) A return address in code that some compiler made at run time, or that has its own way to
 *      walk over frames, stays as it is: a garbage collector looks its frames up by it (seen: a JVM
 *      aborts). Only addresses in dt_control.callers, and stubs (a tail call), get a stub.
 * (R7) Who moves stacks away and back (greenlet) has calls whose frames only seem to be gone. Such
 *      a call returns through a stub that is free: from then on (dt_returns.stray) no stub of that
 *      process is taken from a call that has not returned.
 */
#ifndef DYNTRACE_RETURNS_H
#define DYNTRACE_RETURNS_H

#include "layout.h"

#define DT_STUB_SIZE 32u
#define DT_STUB_SHIFT 5
#define DT_STUB_LANDING 6u /* where the call returns to */
#define DT_STUBS_MAX 131072u
/* at least, written at the start; more when half of them are in use */
#define DT_STUBS_FIRST 16384u
#define DT_RETURN_SHIFT 6
#define DT_RETURN_BUSY 1ULL
#define DT_RETURN_INHERITED (1ULL << 63)
#define DT_RETURN_MARKS (DT_RETURN_BUSY | DT_RETURN_INHERITED)
#define DT_KEPT_MAX 8u
#define DT_KEPT_DURATION 7u /* of those, what an exit computes: ns */
#define DT_RETURN_VANISHED (1u << 31) /* in slot.length: a frame of it was gone without returning */
#define DT_RETURN_RETIRED (1u << 30) /* likewise: some of the chain may be (R5) */

struct dt_return_slot {
	uint64_t ra; /* bound: where it returns to; 0: not bound yet */
	uint64_t body; /* bound: the function, behind its entry's recording; 0: retired (R5) */
	uint64_t exit; /* bound: what records the exit */
	uint64_t start; /* clock at entry */
	uint64_t sp; /* (R2) */
	/* bound: its table's hint, as an offset in struct dt_returns; an exit sets it to this stub */
	uint32_t hint;
	/* bound: slot of the thread that takes it, as an offset in dt_state.slots, in words of 8
	 * bytes */
	uint16_t thread;
	int16_t use; /* (R3) */
	uint32_t next; /* in the chain; 0: the last */
	uint32_t id; /* bound: of the entry event; the exit's is the next one */
	uint32_t tail; /* of the chain's first stub: its last */
	/* of the chain's first stub: how many there are; DT_RETURN_VANISHED, DT_RETURN_RETIRED */
	uint32_t length;
};

_Static_assert(sizeof(struct dt_return_slot) == (1u << DT_RETURN_SHIFT), "dt_return_slot");
_Static_assert(DT_STUB_SIZE == (1u << DT_STUB_SHIFT), "DT_STUB_SIZE");
_Static_assert(DT_KEPT_MAX * 8 == 1u << DT_RETURN_SHIFT, "kept");
_Static_assert(DT_SLOTS * sizeof(struct dt_slot) / 8 <= 1u << 16, "dt_return_slot.thread");

/* One a thread. hints[], by dt_return_index, then heads[]: open addressing, the first stub of each
 * chain. */
struct dt_return_table {
	uint32_t bits; /* both arrays have 1 << bits entries */
	uint32_t keys; /* in heads */
	uint64_t pad;
	uint32_t hints[];
};

/* Where a table is, and its bits, in one word: the offset from the start of struct dt_returns |
 * bits. */
#define DT_RETURN_TABLE_ALIGN 64u

#define DT_RETURN_TABLE_FIRST 7u /* bits */
#define DT_RETURN_TABLE_MAX 18u
#define DT_RETURN_HEAP_SIZE (24u << 20) /* for tables */

/* Which of 1 << bits hints is a key's; trampolines do the same. */
#define DT_RETURN_MULTIPLIER 0x2c1b3c6du
#define DT_RETURN_ID_MULTIPLIER 0x9e3779b1u
static inline uint32_t dt_return_index(uint64_t ra, uint32_t id, uint32_t bits)
{
	uint32_t hash = (uint32_t)ra * DT_RETURN_MULTIPLIER + id * DT_RETURN_ID_MULTIPLIER;

	return (uint32_t)(((uint64_t)hash << bits) >> 32);
}

struct dt_returns {
	/* zeroes: of a thread that has no table yet. It has one hint: */
	struct dt_return_table none;
	uint64_t no_hints;
	uint32_t used; /* stubs that were ever bound, and stub 0, which never is */
	uint32_t heap_used;
	uint32_t rebuilding; /* a forked child is letting go of what other threads held */
	/* whose the stubs in use are; differs in a forked child until its first hit */
	uint32_t pid;
	uint64_t stray; /* returns through stubs that were not in use */
	/* for unwinders of the target, which keep their own notes there */
	uint64_t objects[DT_UNWINDERS_MAX][8];
	uint32_t tables[DT_SLOTS]; /* by thread slot; 0: `none` */
	/* A cache line each: those of two threads are next to each other. */
	struct dt_return_slot slots[DT_STUBS_MAX] __attribute__((aligned(64)));
	/* By stub, where an exit asks for it: what arguments were at entry. As large as a slot, so
	 * that one distance leads from each slot to its words. */
	uint64_t kept[DT_STUBS_MAX][DT_KEPT_MAX];
	uint8_t heap[DT_RETURN_HEAP_SIZE] __attribute__((aligned(DT_RETURN_TABLE_ALIGN)));
};

_Static_assert(offsetof(struct dt_returns, slots) % 64 == 0 &&
		       offsetof(struct dt_returns, kept) % 64 == 0,
	       "lines");

/* From a slot to a word that was kept for it. */
#define DT_KEPT_AT(i)                                                                              \
	(offsetof(struct dt_returns, kept) - offsetof(struct dt_returns, slots) + 8u * (i))

/* What a trampoline tells of its tracepoint. */
struct dt_return_site {
	uint64_t body;
	uint64_t exit;
	uint32_t id;
	uint32_t pad;
};

#endif
