#include "session_state.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "control/base/cleanup.h"

void session_invite(struct session *session, const struct session_guest *guest)
{
	size_t i = 0;

	while (i < SESSION_GUESTS && session->guests[i] && session->guests[i] != guest)
		i++;
	assert(i < SESSION_GUESTS); /* one per room above session/ */
	session->guests[i] = guest;
}

void session_notify(const struct session *session, enum session_notice notice, const char *text)
{
	if (session->options.notify)
		session->options.notify(session->options.notify_context, notice, text);
}

void session_tell(const struct session *session, const char *format, ...)
{
	_cleanup_free_ char *line = NULL;
	va_list args;

	if (!session->options.tell)
		return;
	va_start(args, format);
	if (vasprintf(&line, format, args) < 0)
		line = NULL;
	va_end(args);
	if (line)
		session->options.tell(session->options.tell_context, line);
}

bool session_may_lack(const struct session *session)
{
	return session->options.follow_exec || session->options.several;
}

/* `unknown`: the answer if the mappings can't be read. */
static bool has_code(const struct session *session, struct proc *proc, bool unknown)
{
	assert(session->agent);
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_error_ struct error *error = maps_read(proc, &maps);

	if (error)
		return error_kind(error) != ERROR_GONE && unknown && !proc_has_left(proc);
	const struct mapping *found = maps_find(&maps, session->agent->control_at);
	return found && found->inode == session->agent->code_inode &&
	       found->device == session->agent->code_device;
}

bool session_has_code(const struct session *session, struct proc *proc)
{
	return has_code(session, proc, false);
}

bool session_may_have_code(const struct session *session, struct proc *proc)
{
	return has_code(session, proc, true);
}

void session_note_sizes(const struct session *session)
{
	assert(session->agent && session->types->count <= DT_EVENTS_MAX);
	struct dt_control *control = session->agent->control;

	for (size_t id = control->event_count; id < session->types->count; id++) {
		const struct event_type *type = &session->types->items[id];

		assert(type->id == id);

		control->sizes[id] = (uint16_t)(type->is_variable ? DT_SIZE_VARIES :
							    event_type_pool_size(type));
	}
	/* pairs with the agent's load of event_count: sizes come first */
	__atomic_store_n(&control->event_count, (uint32_t)session->types->count, __ATOMIC_RELEASE);
}
