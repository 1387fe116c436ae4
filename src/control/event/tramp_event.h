/*
 * tramp_event.h - the action of one tracepoint at one instruction: the fields it records and their
 * sources, its condition, or the function it calls instead.
 *
 * values/ fills it in; codegen/ and trampoline/ turn it into machine code.
 */
#ifndef DYNTRACE_TRAMP_EVENT_H
#define DYNTRACE_TRAMP_EVENT_H

#include "control/code/emit.h"
#include "ops.h"
#include "shared/returns.h"

/* The source of a field. */
enum tramp_source {
	SOURCE_REGISTER, /* its value when the site was reached */
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
	uint8_t bits; /* how many bits; 0: all */
	bool is_signed; /* of those bits */
	uint8_t load; /* SOURCE_STACK: bytes to load; 0: as many as are stored */
	int32_t disp;
};

#define TRAMP_FIELDS_MAX 40

/* Limits on hits that pass the filter. All 0: record every hit. */
struct tramp_limits {
	uint64_t every; /* record the first, and then one in so many */
	uint64_t first; /* record so many, then none */
	uint64_t rate; /* record at most so many ... */
	uint64_t period; /* ... in so many cycles of the clock */
	uint32_t counter; /* index in dt_pool.counters */
};

/* Records nothing: notifies the agent when the first arguments have these values (H26). */
struct tramp_watch {
	uint32_t args[3]; /* 32 bits of each */
	uint8_t count; /* of arguments to compare */
	uint8_t pointer; /* an enum reg that must not be NULL; 0: none */
	bool clock; /* the thread can't read the clock after the call */
	bool calls_stay; /* only the clock is lost */
};
#define TRAMP_WATCHES_MAX 6

/* The value that a count by key sums up. */
enum tramp_value {
	VALUE_NONE, /* only hits are counted */
	VALUE_DURATION,
	VALUE_SELF,
	VALUE_NUMBER, /* the image's second word: of the exit's program, or the entry's */
};

/* Counts by key (shared/keys.h): the event's program, or the exit's, finds the key's index. */
struct tramp_keys {
	taddr table; /* 0: no keys */
	uint32_t capacity;
	uint8_t bits; /* of the table */
	uint32_t stride; /* bytes from a key's cell to the next one's */
	bool at_exit; /* the exit's program has the key */
	bool has_condition; /* the program may turn the hit away */
	/* leaves the key, a number: then the program only adds new keys; borrowed; NULL: none */
	const struct value_ops *native;
	enum tramp_value value;
};

/* Counts hits in the target instead of recording them (struct dt_cell). */
struct tramp_count {
	struct tramp_keys keys;
	taddr cell; /* in the first row; 0: hits are recorded */
	uint8_t row_shift; /* log2 of the distance between rows */
	uint16_t row_mask; /* number of rows less one */
	bool own_only; /* not in forked children */
};

/* Where a trampoline's switch leads. */
enum tramp_switch {
	SWITCH_ON,
	SWITCH_COUNTED, /* counts the hit in `demoted`, and records nothing */
	SWITCH_OFF,
};

/* Calls a function in the target instead (foreign_code.h). */
struct tramp_foreign {
	taddr function; /* 0: none */
	taddr gate; /* calls the function */
	taddr argument, exit_argument; /* first argument, at the entry and at the exit */
	taddr enabled, exit_enabled; /* 32-bit words: no call while 0; address 0: always call */
	taddr address; /* of the probe, the image's first word */
	bool own_only; /* not in forked children */
	/* The first argument instead: data that lie behind the trampoline, of that many bytes.
	 * NULL: none. Borrowed. */
	const void *data, *exit_data;
	uint32_t data_size, exit_data_size;
	/* the function isn't known yet: reserve room for the call */
	bool is_wanted;
	/* Sites of a user's function, without the parts that depend on their address
	 * (call_code.h); NULL: not a user's function. Borrowed. */
	const struct dt_call_site *call, *exit_call;
	uint32_t call_size, exit_call_size; /* with the name */
};

struct dt_program;

struct dt_call_site;

/* One tracepoint at one instruction. */
struct tramp_event {
	uint32_t id;
	uint32_t size;
	struct tramp_field fields[TRAMP_FIELDS_MAX];
	size_t field_count;
	size_t insn; /* index of the moved instruction that the event precedes */
	bool keep_red_zone; /* the 128 bytes below rsp may be in use */
	/* gathered: the agent writes the event (shape.h); borrowed */
	const struct dt_program *program;
	uint32_t program_size;
	uint16_t xmms; /* gathered: bit mask of those that the program uses */
	/* record only if the result isn't 0; borrowed (filter_code.h); NULL: always */
	const struct value_ops *filter;
	struct tramp_limits limits;
	struct tramp_count count;
	struct tramp_count demoted; /* for SWITCH_COUNTED; cell 0: there is no such position */
	/* counts hits at SWITCH_ON, before a filter or a limit leaves some out; cell 0: no count */
	struct tramp_count judged;
	struct tramp_foreign foreign;
	struct tramp_watch watches[TRAMP_WATCHES_MAX]; /* if any, the event records nothing */
	size_t watch_count;
	uint32_t asks; /* DT_ASK_*: calls the agent with it, records nothing; 0: none */
	bool finds; /* shows return stubs to an unwinder (find_code.h); records nothing */
	bool guard; /* at a `syscall`, records nothing: asks the agent first (H10) */
	bool hides; /* a guard of rt_sigaction, which tells nobody of our handlers (H42) */
	bool st0, st1; /* gathered: the program uses st(0), st(1) */
	/* an end of the function whose entry has the same id: DT_SITE_RETURN, DT_SITE_JUMP (R9);
	 * records nothing; 0: none */
	uint32_t leaves;
	/* also record the function's exit, as event id + 1; the red zone isn't kept then */
	bool exit;
	bool may_be_late; /* with an exit: late stubs (R9) have code */
	bool is_late; /* and are in use */
	/* Fields or program of the exit, as for an entry; borrowed (exit_stub.h). NULL: rax and
	 * duration. */
	const struct tramp_event *at_exit;
	/* Of an exit: words that the entry keeps for it, and whether its filter uses the
	 * duration. */
	struct tramp_field kept[DT_KEPT_DURATION];
	size_t kept_count;
	bool filters_duration;
	/* With an exit: the exit writes both events, if it records the call at all (R10). Of an
	 * exit: bytes of the entry's plain fields, which lie before its own. */
	bool is_pair;
	uint32_t pair_size;
	/* At the start of a Go function: make its stack check (go_prologue.h) before recording, and
	 * go on after it, so that a call which begins anew counts once. 0: no check. */
	uint8_t check_length;
	int32_t check_frame;
	bool is_checked; /* filled in: the check is made before the recording */
	bool is_go; /* with an exit: of a Go function, whose stack moves (R11) */
	enum tramp_switch position; /* the switch's first value */
	/* the routine that finds the event's place in the pool (shared_code.h); 0: the trampoline
	 * does */
	taddr routine;
	taddr taking; /* likewise, with an exit: the routine that takes a return stub */
	uint8_t origin; /* filled in: offset of the instruction in the site */
	/* Filled in: the word that switches it, relative to the trampoline's start, and its
	 * values. */
	uint32_t switch_offset;
	uint32_t return_site; /* likewise, with an exit: its struct dt_return_site */
	taddr on, off;
	taddr counted; /* 0: as with `demoted` */
	taddr counted_on; /* counts in `judged`, and goes on to `on`; 0: as with `judged` */
	taddr exit_code; /* filled in, with an exit: the code that records it */
};

/* Where the switch leads in that position. */
static inline taddr tramp_event_start(const struct tramp_event *event, enum tramp_switch position)
{
	if (position == SWITCH_OFF)
		return event->off;
	if (position == SWITCH_COUNTED && event->counted.v)
		return event->counted;
	return event->counted_on.v ? event->counted_on : event->on;
}

/* A probe of our own, which records nothing. */
/* Does it stand before the other events of its instruction? None of these may load memory before
 * the thread's signals are known (X6). */
static inline bool tramp_event_comes_first(const struct tramp_event *event)
{
	return event->asks == DT_ASK_SHUT;
}

static inline bool tramp_event_is_own(const struct tramp_event *event)
{
	return event->watch_count || event->asks || event->finds || event->guard || event->leaves;
}

/* Does a hit become an event in the pool, or its exit? */
static inline bool tramp_is_recorded(const struct tramp_event *event)
{
	return !event->count.cell.v && !event->foreign.function.v;
}

/* Are the entry's values kept for the exit, which records both (R10)? */
static inline bool tramp_is_paired(const struct tramp_event *event)
{
	return event->is_pair && event->exit && tramp_is_recorded(event);
}

#endif
