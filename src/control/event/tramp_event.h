/*
 * tramp_event.h - what one tracepoint does at one instruction: which fields it records from where,
 * under which condition, or which function it calls instead.
 *
 * values/ fills it in; codegen/ and trampoline/ turn it into machine code.
 */
#ifndef DYNTRACE_TRAMP_EVENT_H
#define DYNTRACE_TRAMP_EVENT_H

#include "control/code/emit.h"
#include "ops.h"
#include "shared/returns.h"

/* What a field is loaded from. */
enum tramp_source {
	SOURCE_REGISTER, /* as it was when the site was reached */
	SOURCE_XMM, /* `reg` is its number */
	SOURCE_STACK, /* at rsp + disp */
	SOURCE_NOTHING,
	SOURCE_DURATION, /* of an exit: ns since its entry */
};

struct tramp_field {
	enum tramp_source source;
	enum reg reg;
	uint16_t offset; /* in the event */
	uint8_t size; /* 1, 2, 4, 8; SOURCE_XMM: 4, 8, 16; 0: 8 */
	uint8_t shift; /* from the lowest bit */
	uint8_t bits; /* how many of them; 0: all */
	bool is_signed; /* they are */
	uint8_t load; /* SOURCE_STACK: bytes to load, if not as many as are stored */
	int32_t disp;
};

#define TRAMP_FIELDS_MAX 40

/* Which of the hits that the filter lets through are recorded. All 0: each. */
struct tramp_limits {
	uint64_t every; /* the first, and then each that many */
	uint64_t first; /* that many, then none */
	uint64_t rate; /* at most so many ... */
	uint64_t period; /* ... in so many cycles of the clock */
	uint32_t counter; /* of dt_pool.counters, for these */
};

/* Not recorded: tells the agent when the first arguments are these (H26). */
struct tramp_watch {
	uint32_t args[3]; /* 32 bits of each */
	uint8_t count; /* of them */
	uint8_t pointer; /* an enum reg: that one isn't NULL. 0: whatever it is */
};
#define TRAMP_WATCHES_MAX 4

/* Hits are counted in the target, and not recorded (struct dt_cell). */
struct tramp_count {
	taddr cell; /* in the first row; 0: they are recorded */
	uint8_t row_shift; /* how far rows are apart */
	uint16_t row_mask; /* how many there are, less one */
	bool own_only; /* not in forked children */
};

/* A function in the target is called instead (foreign_code.h). */
struct tramp_foreign {
	taddr function; /* 0: none */
	taddr gate; /* by which it is called */
	taddr argument, exit_argument; /* its first, at the entry and at the exit */
	taddr enabled, exit_enabled; /* 32-bit words: not called while they are 0; 0: always */
	taddr address; /* of the probe, the image's first word */
	bool own_only; /* not in forked children */
	/* before the function is known: there will be one, so that room is needed */
	bool is_wanted;
	/* NULL, or the function is the user's: its sites, without what depends on where they are
	 * (call_code.h); borrowed. */
	const struct dt_call_site *call, *exit_call;
	uint32_t call_size, exit_call_size; /* name included */
};

struct dt_program;

struct dt_call_site;

/* One tracepoint at one instruction. */
struct tramp_event {
	uint32_t id;
	uint32_t size;
	struct tramp_field fields[TRAMP_FIELDS_MAX];
	size_t field_count;
	size_t insn; /* recorded before this one of the moved instructions */
	bool keep_red_zone; /* the 128 bytes below rsp may be in use */
	/* gathered: the agent writes the event (shape.h); borrowed */
	const struct dt_program *program;
	uint32_t program_size;
	uint16_t xmms; /* gathered: those that the program uses, a bit each */
	/* record only if this isn't 0; borrowed (filter_code.h); NULL: always */
	const struct value_ops *filter;
	struct tramp_limits limits;
	struct tramp_count count;
	struct tramp_foreign foreign;
	struct tramp_watch watches[TRAMP_WATCHES_MAX]; /* with watch_count it records nothing */
	size_t watch_count;
	uint32_t asks; /* likewise: DT_ASK_*, what the agent tells; 0: nothing */
	bool finds; /* likewise: tells an unwinder of return stubs (find_code.h) */
	bool guard; /* at a `syscall`, records nothing: asks the agent first (H10) */
	bool st0, st1; /* gathered: so does it st(0), and st(1) */
	/* the function's exit is recorded too, as event id + 1; then the red zone isn't kept */
	bool exit;
	/* What the exit records: fields or a program, as an entry has them; borrowed (exit_stub.h).
	 * NULL: rax, duration. */
	const struct tramp_event *at_exit;
	/* Of an exit: what its entry keeps for it, word by word; does its filter ask for the
	 * duration? */
	struct tramp_field kept[DT_KEPT_DURATION];
	size_t kept_count;
	bool filters_duration;
	bool is_off; /* the switch's first value */
	uint8_t origin; /* filled in: where its instruction is, from the site's start */
	/* Filled in: the word that switches it, relative to the trampoline's start, and its two
	 * values. */
	uint32_t switch_offset;
	taddr on, off;
	taddr exit_code; /* filled in, of one with an exit: what records that */
};

/* A probe of our own, which records nothing. */
static inline bool tramp_event_is_own(const struct tramp_event *event)
{
	return event->watch_count || event->asks || event->finds || event->guard;
}

/* Does a hit become an event in the pool? */
static inline bool tramp_is_recorded(const struct tramp_event *event)
{
	return !event->count.cell.v && !event->foreign.function.v;
}

#endif
