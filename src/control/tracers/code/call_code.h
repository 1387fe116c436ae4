/*
 * call_code.h - the part of a trampoline that calls the user's function (src/shared/call.h).
 *
 * It does what foreign_code.h does for our library, and more: the function sees the registers, and
 * a thread inside such a function calls no other (C1).
 *
 * Pure: writes the emitter, or the buffer it is given.
 */
#ifndef DYNTRACE_CALL_CODE_H
#define DYNTRACE_CALL_CODE_H

#include "shared/call.h"
#include "foreign_code.h"

/* The layout of a gate. */
struct call_gate {
	uint32_t size;
	uint32_t entry; /* offset of its first instruction */
	uint32_t resume; /* offset where a thread continues after its function got a signal (C3) */
	uint32_t stride; /* bytes per saved vector register; 0: none are saved */
};

/* Writes a gate (call_gate.S) for this machine; `error_number` is the offset of errno from the FS
 * base. False: no room. */
bool call_write_gate(enum foreign_state state, int64_t error_number, uint8_t *bytes, size_t room,
		     struct call_gate *ret_gate);

struct call_labels {
	struct label no_slot, have_slot, nested, go, cramped, roomy;
	bool looks; /* checks for room on the stack (C4) */
};

/* For foreign_code.h: the places for distances to data. Zero it first. */
struct foreign_labels {
	size_t program_field, site_field;
	struct call_labels call;
};

/* The most bytes that a call adds, including the site. */
size_t call_room(const struct tramp_event *event);

/* The call, with the image at rsp, after record_emit_save. *ret_field: the place for the distance
 * to the site. */
void call_emit(struct emitter *e, const struct tramp_env *env, taddr address, int32_t image,
	       struct call_labels *l, size_t *ret_field);
/* Out of line: the cases without a call; drops the image and jumps to `out`. */
void call_emit_slow(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    int32_t image, struct call_labels *l, struct label *out);
/* Data: the site. `saved`: bytes between the saved registers and rsp at the tracepoint. */
void call_emit_site(struct emitter *e, const struct dt_call_site *site, uint32_t size,
		    uint32_t saved, size_t field);

#endif
