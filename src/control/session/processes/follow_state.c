#include "follow_state.h"

#include <assert.h>
#include <stdlib.h>

#include "control/base/cleanup.h"

bool follow_create(struct session *session)
{
	session->follow = calloc(1, sizeof(*session->follow));
	return session->follow != NULL;
}

void follow_free(struct session *session)
{
	struct follow *follow = session->follow;

	if (!follow)
		return;
	for (size_t i = 0; i < follow->rows.count; i++) {
		free(follow->rows.items[i].name);
		free(follow->rows.items[i].counted);
	}
	for (size_t i = 0; i < follow->requests.count; i++)
		error_free(follow->requests.items[i].missing);
	vec_free(&follow->rows);
	vec_free(&follow->blocks);
	vec_free(&follow->requests);
	assert(!follow->execs.count); /* F1: the parent ends last */
	free(follow);
}

struct error *follow_note_missing(struct session *session, size_t index, struct error *error)
{
	struct session *root = session->parent ? session->parent : session;

	assert(!root->parent); /* F1 */

	while (root->follow->requests.count <= index) {
		if (!vec_push(&root->follow->requests, (struct follow_request){ 0 })) {
			error_free(error);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	struct follow_request *request = &root->follow->requests.items[index];
	request->found |= !error;
	if (!request->found && !request->missing)
		request->missing = error;
	else
		error_free(error);
	return NULL;
}

struct error *follow_check(struct session *session)
{
	if (!session_may_lack(session) || session->options.several || session->parent ||
	    session->tracepoints.count || session->sees_exec)
		return NULL;
	return session->follow->requests.count ?
		       take_ptr(&session->follow->requests.items[0].missing) :
		       NULL;
}

struct error *follow_join_trace(struct session *exec)
{
	struct session *root = exec->parent;
	assert(root && !root->parent && exec->types == root->types); /* F1 */
	size_t first = exec->follow->first_type;
	assert(first <= root->types->count);
	struct error *error = exec->agent ? NULL : follow_share_types(exec, first);

	exec->clock = root->clock;
	exec->writer = root->writer; /* F1 */
	root->counters = exec->counters;
	exec->follow->first_type = root->types->count;
	if (error || root->types->count == first)
		return error;
	/* the agent of an older program may make room among events of a newer one (B9) */
	session_note_sizes(root);
	for (size_t i = 0; i < root->follow->execs.count; i++)
		session_note_sizes(root->follow->execs.items[i].session);
	root->types_announced = false;
	return NULL;
}
