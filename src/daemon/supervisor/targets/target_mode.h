/*
 * target_mode.h - how a target is recorded: its buffer, what happens when that is full, how many
 * snapshots it keeps that hits asked for, how large its trace becomes, and what tracing may cost.
 *
 * The first request for a process, which attaches it, may choose; the daemon's options are the
 * default. A mode holds until the process is detached.
 *
 * (D14) A user other than root and the daemon's own gets no larger buffer than the daemon's
 *       --buffer-size, no larger budget than its --overhead, and mode block, which makes threads
 *       wait, for the user's own processes only.
 */
#ifndef DYNTRACE_TARGET_MODE_H
#define DYNTRACE_TARGET_MODE_H

#include "control/ctf/writer.h"
#include "control/wire/messages.h"
#include "daemon/supervisor/requests/identity.h"
#include "process.h"

struct supervisor;
struct target;

#define TARGET_MODE_KEEP_MAX 200 /* snapshots */

struct target_mode {
	int mode; /* enum session_mode */
	uint64_t buffer_size;
	uint64_t keep; /* snapshots; 0: the worker's default */
	struct writer_limits limits; /* of the trace */
	uint64_t overhead; /* a budget, in millionths; 0: none */
};

/* The daemon's. */
struct target_mode target_mode_default(const struct supervisor *supervisor);
/* Reads the mode that a WIRE_ATTACH or a WIRE_ADD asks for (D14). `target`: the process is attached
 * already, and another mode than it has is refused; NULL: it isn't. */
struct error *target_mode_choose(const struct supervisor *supervisor, const struct target *target,
				 const struct process *process, const struct identity *who,
				 const struct wire_message *message, struct target_mode *ret_mode);

/* As attributes of a message, and back: absent ones leave *mode as it is. */
void target_mode_write(const struct target_mode *mode, struct wire_out *out);
void target_mode_read(const struct wire_message *message, struct target_mode *mode);

#endif
