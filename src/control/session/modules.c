/*
 * modules.c - the target's libraries come and go.
 *
 * A struct module is what places, symbols and the planner's views point to: those that are still there stay the same
 * objects, however often the list is read.
 */
#include <stdlib.h>

#include "../base/cleanup.h"
#include "internal.h"

static bool is_same(const struct module *a, const struct module *b)
{
	return taddr_equal(a->bias, b->bias) && taddr_equal(a->low, b->low) && a->inode == b->inode &&
	       a->device == b->device;
}

/* Exchanges what was read for the object that was known, of each that was: *ret_copies has what was read, and `before` those
 * that are gone. */
static bool keep_known(struct modules *now, struct modules *before, struct modules *ret_copies)
{
	if (!vec_reserve(ret_copies, now->count))
		return false;
	for (size_t i = 0; i < now->count; i++) {
		for (size_t j = 0; j < before->count; j++) {
			if (!is_same(now->items[i], before->items[j]))
				continue;
			ret_copies->items[ret_copies->count++] = now->items[i];
			now->items[i] = before->items[j];
			before->items[j] = before->items[--before->count];
			break;
		}
	}
	return true;
}

static struct error *read_modules(struct session *session, struct modules *ret_modules)
{
	struct maps maps = { 0 };
	struct error *error = maps_read(session->proc, &maps);

	if (!error)
		error = modules_read(session->proc, &maps, ret_modules);
	maps_free(&maps);
	return error;
}

struct error *modules_start(struct session *session)
{
	modules_free(&session->modules);
	return read_modules(session, &session->modules);
}

struct error *modules_follow(struct session *session)
{
	struct modules now = { 0 }, copies = { 0 };
	struct error *error = NULL;

	/* What is there then isn't ours to change. */
	if (session->agent && proc_is_alive(session->proc) && !place_has_code(session, session->proc))
		return error_new(ERROR_GONE, "process %d has begun another program", session->proc->pid);
	error = read_modules(session, &now);

	if (error)
		return error;
	if (!vec_reserve(&session->old_modules, session->modules.count) ||
	    !keep_known(&now, &session->modules, &copies)) {
		modules_free(&now);
		return error_new(ERROR_FAILED, "out of memory");
	}
	for (size_t i = 0; i < session->modules.count; i++)
		session->old_modules.items[session->old_modules.count++] = session->modules.items[i];
	vec_free(&session->modules);
	modules_free(&copies);
	session->modules = now;
	return NULL;
}

struct error *session_modules_changed(struct session *session)
{
	return modules_follow(session);
}
