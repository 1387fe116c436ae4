/*
 * gather.h - events that need more than registers: what gather.c, text.c, safe_read.c and unwind.c
 * share.
 *
 * All of it runs on a stack of the agent's own, with every signal blocked (gather.S), so the
 * thread's slot is nobody else's meanwhile: the event is written in place, and only when it is
 * complete does the reserve word move on.
 */
#ifndef DYNTRACE_GATHER_H
#define DYNTRACE_GATHER_H

#include "shared/program.h"
#include "agent_parts.h"

#define WINDOWS DT_PREFETCH_MAX
#define WINDOW_SIZE 320u
/* that a caller gets, if they can be read: enough for a number and for any character */
#define WINDOW_LEAST 8u

/* Bytes of the target's memory. */
struct window {
	uint64_t start;
	uint32_t size; /* 0: none */
	uint8_t bytes[WINDOW_SIZE];
};

struct gather {
	const struct dt_control *control;
	const struct dt_program *program;
	const struct dt_regs *regs;
	struct dt_slot *slot; /* NULL: the event isn't begun, or is an image */
	uint8_t *event; /* NULL: it isn't begun */
	uint64_t clock;
	uint32_t at; /* bytes of the event so far */
	uint32_t top; /* numbers on the stack */
	bool failed; /* since the last field: something couldn't be read */
	bool over; /* nothing more to do */
	uint64_t unreadable; /* a bit a field */
	uint64_t stack[DT_PROGRAM_STACK];
	uint32_t next_window;
	struct window windows[WINDOWS];
};

/* gather.c: runs a program. 1: the event was written. */
uint64_t gather_event(const struct dt_control *control, const struct dt_program *program,
		  const struct dt_regs *regs);
/* gather.c: at a function's exit, the slot of its return stub; else NULL. */
const struct dt_return_slot *gather_stub(const struct gather *g);
/* gather.c: room for that many bytes more, or the rest of what there is. */
uint32_t gather_room(const struct gather *g, uint32_t wanted);

/* safe_read.c: copies this process's own memory; how many bytes could be read, from the start. */
uint64_t safe_read(const struct dt_control *control, uint64_t from, void *to, uint64_t length);

/* safe_read.c: the same, from several places; what follows one that can't be read isn't. */
uint64_t safe_read_list(const struct dt_control *control, const struct sys_iovec *local,
			uint32_t locals, const struct sys_iovec *remote, uint32_t remotes);
/* safe_read.c: memory that nobody unmaps; the second copies it, and is false for other memory. */
bool safe_is_lasting(const struct dt_control *control, uint64_t from);
bool safe_read_lasting(const struct dt_control *control, uint64_t from, void *to, uint64_t length);

/* read_cache.c: copies up to `most` bytes, what is at hand of them: some, unless nothing there can be
 * read. */
uint32_t read_cache_read(struct gather *g, uint64_t from, void *to, uint32_t most);
/* read_cache.c: copies them all, or as many as can be read. */
uint64_t read_cache_read_all(struct gather *g, uint64_t from, void *to, uint32_t length);
/* read_cache.c: memory that will be wanted. */
void read_cache_prefetch(struct gather *g, const uint64_t *addresses, uint32_t count);

/* text.c: a string field from memory, with its NUL. It ends behind `length` bytes and, unless it is
 * counted, at the first NUL. */
void text_store(struct gather *g, uint64_t address, uint64_t length, bool counted, uint32_t most);
/* text.c: one of characters of 2 or 4 bytes, up to a NUL. */
void text_store_wide(struct gather *g, uint64_t address, uint32_t size, uint32_t most);
/* text.c: the name of the thread; the names of the fields that couldn't be read. */
void text_store_comm(struct gather *g);
void text_store_unreadable(struct gather *g);
/* text.c: does the string there match, of up to `length` bytes? false, and *ret_failed, when it
 * can't be read. */
bool text_match(struct gather *g, uint64_t address, uint64_t length, const char *pattern, bool glob,
		bool *ret_failed);

/* unwind.c: return addresses, the probe's own first; how many. */
uint32_t unwind_walk(const struct gather *g, uint64_t *frames, uint32_t most);

#endif
