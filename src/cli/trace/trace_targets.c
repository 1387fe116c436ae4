#include "trace_targets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/proc/find_process.h"
#include "options/commands.h"
#include "trace_args.h"

static bool is_pid(const char *target)
{
	return *target && !target[strspn(target, "0123456789")];
}

static bool is_among(const struct tids *pids, pid_t pid)
{
	for (size_t i = 0; i < pids->count; i++) {
		if (pids->items[i] == pid)
			return true;
	}
	return false;
}

static struct error *add_pid(struct tids *pids, pid_t pid)
{
	return is_among(pids, pid) || vec_push(pids, pid) ? NULL :
							   error_new(ERROR_FAILED, "out of memory");
}

/* Adds all processes that the target means. */
static struct error *add_target(const char *target, struct tids *pids)
{
	struct tids named = { 0 };
	struct error *error = NULL;
	pid_t pid;

	if (is_pid(target)) {
		error = proc_find(target, &pid);
		return error ? error : add_pid(pids, pid);
	}
	error = find_process_all(target, true, &named);
	if (!error && !named.count)
		error = proc_find(target, &pid); /* which says that none has the name */
	for (size_t i = 0; i < named.count && !error; i++)
		error = add_pid(pids, named.items[i]);
	vec_free(&named);
	return error;
}

static int by_age(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

static struct error *open_all(const struct tids *pids, struct trace_targets *targets)
{
	struct error *error = NULL;

	for (size_t i = 0; i < pids->count && !error; i++) {
		struct proc *proc = NULL;

		error = proc_open(pids->items[i], &proc);
		if (error && pids->count > 1 && error_kind(error) != ERROR_INTERRUPTED) {
			cli_note("process %d: not traced: %s", pids->items[i], error_text(error));
			error = (error_free(error), NULL);
			continue;
		}
		if (!error && !vec_push(targets, proc)) {
			proc_close(proc);
			error = error_new(ERROR_FAILED, "out of memory");
		}
	}
	if (!error && !targets->count)
		error = error_new(ERROR_FAILED, "none of %zu processes can be traced", pids->count);
	return error;
}

static struct error *check_several(const struct tids *pids)
{
	const char *name = trace_args.targets.items[0].text;
	enum tracer_kind kind = trace_args.tracer->kind;
	const char *what = trace_args.tracer->name;

	if (pids->count < 2 || kind == TRACER_CTF || kind == TRACER_COUNT)
		return NULL;
	if (trace_args.targets.count > 1 || trace_args.children)
		return error_new(ERROR_USAGE, "'%s' works with one process at a time (give one -p)",
				 what);
	char advice[96];
	snprintf(advice, sizeof(advice), "'%s' works with one process at a time: use the pid of one",
		 what);
	return find_process_several(name, pids, advice, find_process_by_arguments);
}

struct error *trace_targets_open(struct trace_targets *ret_targets)
{
	struct tids pids = { 0 };
	struct error *error = NULL;

	for (size_t i = 0; i < trace_args.targets.count && !error; i++)
		error = add_target(trace_args.targets.items[i].text, &pids);
	if (!error && trace_args.children)
		error = find_process_children(&pids);
	if (!error)
		error = check_several(&pids);
	if (!error && pids.count > 1)
		qsort(pids.items, pids.count, sizeof(*pids.items), by_age);
	if (!error)
		error = open_all(&pids, ret_targets);
	vec_free(&pids);
	return error;
}

void trace_targets_close(struct trace_targets *targets)
{
	for (size_t i = 0; i < targets->count; i++)
		proc_close(targets->items[i]);
	vec_free(targets);
}
