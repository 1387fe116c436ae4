#include "target_mode.h"

#include <assert.h>

#include "control/session/state/session_options.h"
#include "daemon/supervisor/supervisor.h"
#include "shared/layout.h"
#include "target.h"

#define WHOLE_OVERHEAD 1000000u /* 100% */

static const char *const names[] = { [SESSION_DISCARD] = "discard",
				     [SESSION_OVERWRITE] = "overwrite",
				     [SESSION_BLOCK] = "block" };

struct target_mode target_mode_default(const struct supervisor *supervisor)
{
	uint64_t keep = supervisor->options.snapshots_kept;

	return (struct target_mode){ .mode = supervisor->options.mode,
				     .buffer_size = supervisor->options.buffer_size,
				     .keep = keep > TARGET_MODE_KEEP_MAX ? TARGET_MODE_KEEP_MAX :
									   keep,
				     .limits = supervisor->options.limits,
				     .overhead = (uint64_t)(supervisor->options.overhead *
							    WHOLE_OVERHEAD + 0.5) };
}

void target_mode_write(const struct target_mode *mode, struct wire_out *out)
{
	wire_number(out, WIRE_MODE, (uint64_t)mode->mode);
	wire_number(out, WIRE_BUFFER_SIZE, mode->buffer_size);
	if (mode->keep)
		wire_number(out, WIRE_SNAPSHOTS_KEPT, mode->keep);
	if (mode->mode != SESSION_OVERWRITE) { /* else the buffer bounds the trace */
		wire_number(out, WIRE_MAX_SIZE, mode->limits.max_size);
		wire_number(out, WIRE_MAX_FILES, mode->limits.max_files);
		wire_number(out, WIRE_ROTATE, mode->limits.rotate_ns);
		wire_number(out, WIRE_OVERHEAD, mode->overhead);
	}
}

void target_mode_read(const struct wire_message *message, struct target_mode *mode)
{
	uint64_t kind = wire_get_number(message, WIRE_MODE, (uint64_t)mode->mode);

	if (kind <= SESSION_BLOCK)
		mode->mode = (int)kind;
	mode->buffer_size = wire_get_number(message, WIRE_BUFFER_SIZE, mode->buffer_size);
	mode->keep = wire_get_number(message, WIRE_SNAPSHOTS_KEPT, mode->keep);
	mode->overhead = wire_get_number(message, WIRE_OVERHEAD, mode->overhead);
	uint64_t max_size = wire_get_number(message, WIRE_MAX_SIZE, 0),
		 max_files = wire_get_number(message, WIRE_MAX_FILES, 0),
		 rotate_ns = wire_get_number(message, WIRE_ROTATE, 0);
	if (max_size || max_files || rotate_ns) /* one of them means all */
		mode->limits = (struct writer_limits){ .max_size = max_size,
						       .max_files = (uint32_t)max_files,
						       .rotate_ns = rotate_ns };
}

/* A trigger without a mode means overwrite mode, as in `dyntrace trace`. */
static void read_wish(const struct wire_message *message, struct target_mode *mode)
{
	if (wire_get_text(message, WIRE_SNAPSHOT_WHEN))
		mode->mode = SESSION_OVERWRITE;
	target_mode_read(message, mode);
	/* the daemon's isn't for such targets */
	if (mode->mode == SESSION_OVERWRITE && !wire_get_number(message, WIRE_OVERHEAD, 0))
		mode->overhead = 0;
}

static struct error *check_range(const struct target_mode *mode)
{
	if (mode->buffer_size < DT_POOL_MIN || mode->buffer_size > DT_POOL_MAX)
		return error_new(ERROR_USAGE, "--buffer-size: out of range (from 1M to 4095M)");
	if (mode->keep > TARGET_MODE_KEEP_MAX)
		return error_new(ERROR_USAGE, "--max-files: at most %d snapshots",
				 TARGET_MODE_KEEP_MAX);
	if (mode->overhead > WHOLE_OVERHEAD)
		return error_new(ERROR_USAGE, "--overhead: from 0.01%% to 100%%");
	if (mode->overhead && mode->mode == SESSION_OVERWRITE)
		return error_new(ERROR_USAGE, "--overhead: not with --mode overwrite (hits are "
					      "known at the end only)");
	return NULL;
}

static struct error *check_attached(const struct target *target, const struct target_mode *wish)
{
	const struct target_mode *has = &target->mode;

	assert(has->mode <= SESSION_BLOCK && wish->mode <= SESSION_BLOCK);
	if (wish->mode != has->mode)
		return error_new(ERROR_FAILED,
				 "process %d (%s) is recorded in mode %s already, not %s ('dyntrace "
				 "detach %d' ends its trace)",
				 target->pid, target->process.name, names[has->mode],
				 names[wish->mode], target->pid);
	if (wish->buffer_size != has->buffer_size || wish->keep != has->keep)
		return error_new(ERROR_FAILED,
				 "process %d (%s) is attached already, with another %s ('dyntrace "
				 "detach %d' ends its trace)",
				 target->pid, target->process.name,
				 wish->keep != has->keep ? "--max-files" : "--buffer-size",
				 target->pid);
	bool is_other = wish->mode != SESSION_OVERWRITE && wish->overhead != has->overhead;
	if (is_other || wish->limits.max_size != has->limits.max_size ||
	    wish->limits.max_files != has->limits.max_files ||
	    wish->limits.rotate_ns != has->limits.rotate_ns)
		return error_new(ERROR_FAILED,
				 "process %d (%s) is attached already, with another %s ('dyntrace "
				 "detach %d' ends its trace)",
				 target->pid, target->process.name,
				 is_other ? "--overhead" : "limit of its trace",
				 target->pid);
	return NULL;
}

struct error *target_mode_choose(const struct supervisor *supervisor, const struct target *target,
				 const struct process *process, const struct identity *who,
				 const struct wire_message *message, struct target_mode *ret_mode)
{
	struct target_mode mode = target ? target->mode : target_mode_default(supervisor);
	bool is_master = supervisor_is_master(supervisor, who->uid);

	read_wish(message, &mode);
	struct error *error = check_range(&mode);
	if (!error && target)
		error = check_attached(target, &mode);
	if (!error && !target && !is_master && mode.buffer_size > supervisor->options.buffer_size)
		error = error_new(ERROR_NOT_PERMITTED, /* D14 */
				  "--buffer-size: at most the daemon's %llu M (only root has more)",
				  (unsigned long long)(supervisor->options.buffer_size >> 20));
	if (!error && !target && !is_master && supervisor->options.overhead > 0 &&
	    mode.overhead > target_mode_default(supervisor).overhead)
		error = error_new(ERROR_NOT_PERMITTED, /* D14 */
				  "--overhead: at most the daemon's %g%% (only root has more)",
				  supervisor->options.overhead * 100);
	if (!error && !target && !is_master && mode.mode == SESSION_BLOCK &&
	    supervisor->options.mode != SESSION_BLOCK && process->user.uid != who->uid)
		error = error_new(ERROR_NOT_PERMITTED,
				  "process %d (%s) isn't yours: only root makes other users' threads "
				  "wait (--mode block)",
				  process->user.pid, process->name);
	if (!error)
		*ret_mode = mode;
	return error;
}
