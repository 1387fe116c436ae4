/*
 * gather.h - events that need more than registers: declarations that gather.c, event_room.c,
 * lists.c, walks.c, text.c, read_cache.c, safe_read.c and unwind.c share.
 *
 * Runs on the thread's own stack, with signals as they are, where the thread is known to have room
 * there (stack_room.c); else on a stack of the agent's with every signal blocked (gather.S). A
 * signal's handler may hit, fork or jump away at every instruction, so nothing is held: the event's
 * room is reserved like that of any other event (B2, B10), and everything else is on the stack.
 * Where signals can't be blocked for lack of system calls (quiet.c), the event is made in other
 * memory, and copied.
 */
#ifndef DYNTRACE_GATHER_H
#define DYNTRACE_GATHER_H

#include "shared/program.h"
#include "agent_parts.h"
#include "row_cache.h"

#define WINDOWS DT_PREFETCH_MAX
#define WINDOW_SIZE 320u

/* Bytes of the target's memory. */
struct window {
	uint64_t start;
	uint64_t size; /* 0: none */
	uint8_t bytes[WINDOW_SIZE];
};

/* A list that is being written. */
struct gather_list {
	uint32_t count_at, limit, start; /* in the event; of the element */
	uint32_t left, number; /* elements to come; of the element */
	uint32_t field;
	bool failed; /* some of this element couldn't be read */
};

struct gather {
	const struct dt_control *control;
	const struct dt_program *program;
	const struct dt_regs *regs;
	/* signals are as they are, and this is the thread's slot; NULL: they are blocked */
	struct dt_slot *open;
	bool loads; /* plain loads may read memory that goes away (loads.h) */
	struct dt_range own; /* of the thread's own stack, which stays; 0: unknown */
	struct dt_slot *slot; /* NULL: the event isn't begun, or has an image instead */
	uint32_t pid; /* dt_state.pid when the event was begun */
	uint64_t reserved; /* the reserve word behind the event */
	uint8_t *event; /* NULL: not begun */
	uint8_t *draft; /* memory to make the event in; NULL: in place */
	struct unwind *unwind; /* memory for unwind.c */
	uint64_t clock;
	uint32_t at; /* bytes of the event so far */
	uint32_t top; /* numbers on the stack */
	bool failed; /* since the last field: a read failed */
	bool over; /* the program has ended */
	uint64_t unreadable[DT_PROGRAM_FIELDS_MAX / 64]; /* one bit per field */
	uint64_t stack[DT_PROGRAM_STACK];
	uint64_t locals[DT_LOCALS_MAX];
	uint32_t depth; /* of lists */
	uint32_t turns; /* elements so far, of all lists */
	struct gather_list lists[DT_LISTS_MAX];
	uint32_t next_window;
	struct window windows[WINDOWS];
};

/* event_room.c: with signals open, is there room for an event, or does nobody wait for it (B8)? */
bool event_room_may_begin(const struct dt_control *control, const struct dt_slot *slot,
			  uint32_t size);
#define EVENT_ROOM_HEAD 16u /* bytes of the event before its fields */
/* event_room.c: begins the event, unless that is done. g->over: there is no room. */
void event_room_begin(struct gather *g);
/* Is this the child of a handler's fork? Then the event is its parent's, who goes on with it. */
static inline bool event_room_is_forked(const struct gather *g)
{
	return g->open && agent_state(g->control)->pid != g->pid;
}
/* event_room.c: the event counts from here on, with the fields that it has. */
void event_room_finish(struct gather *g);

/* gather.c: runs a program, whose control, program, regs, open, own, draft and unwind are given. 1:
 * wrote the event. */
uint64_t gather_run(struct gather *g);
/* gather.c: the same, in memory on the stack. `open`: the thread's slot, if signals aren't blocked.
 * SLOW_AGAIN: there is no room for it yet (B8). */
uint64_t gather_event(const struct dt_control *control, const struct dt_program *program,
		      const struct dt_regs *regs, struct dt_slot *open);
/* gather.S: dt_slow. The slot, with room for that many bytes; NULL: the hit was counted as lost. */
struct dt_slot *gather_ask(const struct dt_control *control, uint32_t id, uint32_t size);
/* gather.c: at a function's exit, its return stub's slot; else NULL. */
const struct dt_return_slot *gather_stub(const struct gather *g);
/* gather.c: aligns the next field, of `room` bytes. False: no room, or no event. */
bool gather_align(struct gather *g, uint32_t to, uint32_t room);
/* gather.c: ends a field: notes whether some of it could not be read. */
void gather_close(struct gather *g, uint32_t field);
/* gather.c: the same for what was left out of a field, in whatever list that is. */
void gather_list_unreadable(struct gather *g, uint32_t field);

/* lists.c: the operations of lists; give the number of operations to skip, modulo 2^32: back for
 * the next element. */
void lists_begin(struct gather *g, const struct dt_op *op, uint64_t count);
uint32_t lists_each(struct gather *g, const struct dt_op *op);
uint32_t lists_next(struct gather *g, const struct dt_op *op);

/* walks.c: the next node in order of a tree, as std::map has; `kind`: DT_OP_TREE_NEXT. */
uint64_t walk_tree(struct gather *g, uint64_t node, uint32_t kind);
/* walks.c: the first slot in use from `index` on (DT_OP_TABLE_NEXT). */
uint64_t walk_table(struct gather *g, uint64_t control, uint64_t mask, uint64_t index);
/* walks.c: a key of a B-tree: its node, its number there, and the node's height. */
struct walk_btree {
	uint64_t node, index, height;
};
/* walks.c: goes to the next key in order (DT_OP_BTREE_NEXT). */
void walk_btree(struct gather *g, uint64_t offsets, struct walk_btree *at);
/* gather.c: `wanted`, or the bytes left in the event if fewer. */
uint32_t gather_room(const struct gather *g, uint32_t wanted);

/* safe_read.c: copies this process's own memory; gives the number of bytes read from the start. */
uint64_t safe_read(const struct dt_control *control, uint64_t from, void *to, uint64_t length);

/* safe_read.c: the same, from several places, up to the first unreadable one. */
uint64_t safe_read_list(const struct dt_control *control, const struct sys_iovec *local,
			uint32_t locals, const struct sys_iovec *remote, uint32_t remotes);
/* safe_read.c: is it in dt_control.heap? */
bool safe_is_heap(const struct dt_control *control, uint64_t address);
/* safe_read.c: may it be there once the heap has grown? */
bool safe_may_be_heap(const struct dt_control *control, uint64_t address);
/* safe_read.c: bytes from there on, of dt_control.stable, or of pages of the heap that are known to
 * stay; 0: the memory may go away. */
uint64_t safe_stable(const struct dt_control *control, uint64_t from);
/* safe_read.c: copies from that memory; false: it is other memory. */
bool safe_read_stable(const struct dt_control *control, uint64_t from, void *to, uint64_t length);

/* read_cache.c: bytes from there on that plain loads may read: stable memory, the thread's own
 * stack. */
uint64_t read_cache_direct(const struct gather *g, uint64_t from);

/* read_cache.c: copies up to `most` bytes, as many as a window has, and `least` if they can be
 * read; 0 only if the first can't. */
uint32_t read_cache_read(struct gather *g, uint64_t from, void *to, uint32_t least,
			 uint32_t most);
/* read_cache.c: copies all bytes, or as many as can be read. */
uint64_t read_cache_read_all(struct gather *g, uint64_t from, void *to, uint32_t length);
/* read_cache.c: forgets what was read. */
void read_cache_clear(struct gather *g);
/* read_cache.c: reads memory that the program will want. */
void read_cache_prefetch(struct gather *g, const uint64_t *addresses, uint32_t count);

/* text.c: stores a string field from memory, with its NUL. The string ends after `length` bytes
 * and, unless counted, at the first NUL. */
void text_store(struct gather *g, uint64_t address, uint64_t length, bool counted, uint32_t most);
/* text.c: the same with characters of 2 or 4 bytes: `length` of them, or up to a NUL. */
void text_store_wide(struct gather *g, uint64_t address, uint32_t size, uint64_t length,
		     uint32_t most);
/* text.c: stores a number of 128 bits, in decimal. */
void text_store_number(struct gather *g, uint64_t low, uint64_t high, bool is_signed);
/* text.c: stores the thread's name; the names of unreadable fields. */
void text_store_comm(struct gather *g);
void text_store_unreadable(struct gather *g);
/* text.c: does the string of up to `length` bytes match? If it can't be read: false, and
 * *ret_failed is set. */
bool text_match(struct gather *g, uint64_t address, uint64_t length, const char *pattern, bool glob,
		bool *ret_failed);

/* key.c: the index of a key, which is added if it is new and there is room (keys.h). */
uint32_t key_of_number(uint64_t table, uint64_t number);
uint32_t key_of_text(uint64_t table, const uint8_t *bytes, uint32_t size);

/* unwind.c: where a walk up the stack is. */
struct unwind_place {
	uint64_t pc, sp, bp;
	bool exact; /* pc is the next instruction, not a return address */
	bool over; /* all frames have been found */
};

/* unwind.c: what a walk knows of the process and the thread. */
struct unwind_map {
	const struct dt_control *control;
	struct row_cache cache;
	struct dt_range own; /* of the thread's own stack, in whole words */
	struct dt_range stubs; /* return stubs */
};

/* unwind.c: its memory. */
struct unwind {
	struct unwind_map map;
	struct unwind_place at;
	bool broken;
	bool has_read; /* the event's windows have other bytes now */
	uint64_t start, size; /* of the copied piece */
	uint64_t *window; /* the event's windows, all of them; NULL: only the own stack is read */
};

/* unwind.c: stores return addresses, after the probe's own; gives their number. */
uint32_t unwind_walk(struct gather *g, uint64_t *frames, uint32_t most);

#endif
