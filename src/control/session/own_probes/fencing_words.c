/*
 * fencing_words.c - what users hear of fences that don't let everything through.
 */
#include "control/base/cleanup.h"
#include "fencing_parts.h"

static void tell_missing(const struct session *session, const struct fence *fence, unsigned part,
			 const char *missing)
{
	_cleanup_free_ char *what = fence_describe(fence, part);

	if (what)
		session_tell(session, "%s: its filter %s: %s", session->proc->comm, what, missing);
}

/* Tells which wishes of the user's a target without any call of the agent's can't have. */
static void tell_quiet(const struct session *session, const struct fence *fence)
{
	const struct session_options *options = &session->options;
	const char *comm = session->proc->comm;
	_cleanup_free_ char *what = fence_describe(fence, FENCE_RECORD);

	session_tell(session,
		     "%s: %s%s: dyntrace makes no system call in it, so most values behind pointers "
		     "can't be read, backtraces end early and names of threads are unknown",
		     comm, what ? "its filter " : "it handles its own system calls",
		     what ? what : "");
	if (options->mode == SESSION_BLOCK)
		session_tell(session, "%s: its threads can't wait for room: events are lost instead",
			     comm);
	if (options->follow_exec)
		session_tell(session, "%s: programs that it begins aren't followed", comm);
}

void fencing_tell_parts(const struct session *session, const struct fence *fence, unsigned closed)
{
	if (closed & FENCE_RECORD) {
		tell_quiet(session, fence);
		return;
	}
	tell_missing(session, fence, FENCE_READ,
		     "some values behind pointers can't be read, and backtraces may end early");
	tell_missing(session, fence, FENCE_NAME, "names of threads can't be read");
	tell_missing(session, fence, FENCE_SIGNAL,
		     "its handlers of faults may see addresses of dyntrace's");
}

void fencing_note_lines(struct session *session, const struct fence *fence)
{
	_cleanup_free_ char *what = fence_describe(fence, FENCE_LINES | FENCE_RECORD);

	snprintf(session->no_lines, sizeof(session->no_lines), "%s", what ? what : "");
}
