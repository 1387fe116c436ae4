/*
 * call_code.h - the part of a trampoline that calls a function of the user's (src/shared/call.h):
 * what foreign_code.h does for a library of ours, and more: the registers are shown, a thread that
 * is in such a function calls no other.
 *
 * Pure: writes the emitter, or the buffer it is given. Private to plan/, but for the gates.
 */
#ifndef DYNTRACE_CALL_CODE_H
#define DYNTRACE_CALL_CODE_H

#include "shared/call.h"
#include "foreign_code.h"

/* What is known of a gate: its size, where it begins to run, where functions go on that got a
 * signal, how far saved vector registers are apart (0: there are none). From its start. */
struct call_gate {
	uint32_t size, entry, resume, stride;
};

/* A gate (call_gate.S) to `bytes`, for this machine; `error_number` is where errno is, from the FS
 * base. False: no room. */
bool call_write_gate(enum foreign_state state, int64_t error_number, uint8_t *bytes, size_t room,
		     struct call_gate *ret_gate);

struct call_labels {
	struct label no_slot, have_slot, nested, go, cramped, roomy;
	bool looks; /* for room on the stack (C4) */
};

/* Of foreign_code.h: where the distances to data go. Zero it first. */
struct foreign_labels {
	size_t program_field, site_field;
	struct call_labels call;
};

/* The most bytes that these add, the site included. */
size_t call_room(const struct tramp_event *event);

/* The call, with the image at rsp, behind record_emit_save. *ret_field: where the distance to the
 * site goes. */
void call_emit(struct emitter *e, const struct tramp_env *env, taddr address, int32_t image,
	       struct call_labels *l, size_t *ret_field);
/* Out of line: from where it isn't called, to `out` without the image. */
void call_emit_slow(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    int32_t image, struct call_labels *l, struct label *out);
/* Data: the site. `saved`: bytes from what record_emit_save pushed to rsp at the tracepoint. */
void call_emit_site(struct emitter *e, const struct dt_call_site *site, uint32_t size,
		    uint32_t saved, size_t field);

#endif
