/*
 * changer PID OUTPUT FIRST SECOND: a controller for tests that kill it. It places FIRST, a function
 * with its exits, then SECOND in the middle of it, so that sites are exchanged, removes SECOND, and
 * leaves.
 */
#include <stdio.h>
#include <stdlib.h>

#include "control/base/cleanup.h"
#include "control/session/session.h"

static struct error *add(struct session *session, const char *location, enum tracepoint_kind kind)
{
	return session_add(session, &(struct tracepoint_spec){ .location = location, .kind = kind },
			   NULL);
}

static struct error *change(struct session *session, const char *first, const char *second)
{
	struct session_summary summary = { 0 };
	struct error *error = session_begin(session, NULL);

	if (!error)
		error = add(session, first, TRACEPOINT_FUNCTION);
	if (!error)
		error = add(session, second, TRACEPOINT_BARE);
	if (!error)
		error = session_take_out(session, 1);
	if (!error)
		error = session_put_back(session, 1);
	return error ? error : session_end(session, &summary);
}

int main(int argc, char **argv)
{
	const struct session_options options = { .output = argc == 5 ? argv[2] : NULL,
						 .buffer_size = 1 << 20,
						 .follow_fork = true };
	struct session *session = NULL;
	struct proc *proc = NULL;

	if (argc != 5)
		return 2;
	_cleanup_error_ struct error *error = proc_open(atoi(argv[1]), &proc);
	if (!error)
		error = session_create(proc, &options, &session);
	if (!error)
		error = change(session, argv[3], argv[4]);
	if (error)
		fprintf(stderr, "changer: %s\n", error_text(error));
	session_destroy(session);
	proc_close(proc);
	return error ? 1 : 0;
}
