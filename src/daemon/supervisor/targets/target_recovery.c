/*
 * target_recovery.c - targets of a supervisor that died.
 */
#include "target_recovery.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "journal.h"
#include "spawn.h"
#include "daemon/supervisor/supervisor.h"
#include "target_worker.h"

/* The socket of the worker that an earlier supervisor started; -1: it has died. */
static int connect_worker(const struct supervisor *supervisor, pid_t pid)
{
	_cleanup_free_ char *path = spawn_socket_path(supervisor, pid);
	int fd = -1;
	_cleanup_error_ struct error *dead = path ? spawn_connect(path, &fd) : NULL;

	return fd;
}

/* Ends a worker of an earlier supervisor whose journal is worth nothing any more: lets it detach.
 * The kernel doesn't know its pid here, only that of the supervisor that made its socket. */
static void end_worker(const struct supervisor *supervisor, pid_t pid)
{
	_cleanup_close_ int fd = connect_worker(supervisor, pid);
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_DETACH, 1);
	wire_end(&out);
	if (fd >= 0 && !out.bytes.failed &&
	    send(fd, out.bytes.text, out.bytes.length, MSG_NOSIGNAL) < 0)
		log_line("process %d: cannot end its worker: %s", pid, strerror(errno));
	wire_free(&out);
}

static struct error *find_again(struct supervisor *supervisor, pid_t pid)
{
	struct process process;
	struct target *target = NULL;
	struct error *error = process_read(pid, &process);

	if (!error && target_find(supervisor, pid))
		return NULL; /* one journal per process */
	if (error)
		journal_forget(supervisor, pid);
	else
		error = target_create(supervisor, pid, &process, process.user.uid, &target);
	if (error)
		return error;
	if (!process.alive) {
		error = error_new(ERROR_GONE, "process %d has ended", pid);
	} else if (!journal_read(target)) {
		error = error_new(ERROR_GONE,
				  "process %d (%s) has begun another program or has other rights, or "
				  "its journal can't be read",
				  pid, process.name);
	} else {
		int fd = connect_worker(supervisor, pid);

		error = target_worker_use(target, fd);
		target->attached = fd >= 0; /* its answer to WIRE_CONFIGURE is under way */
	}
	if (error) {
		if (error_kind(error) == ERROR_GONE)
			end_worker(supervisor, pid);
		journal_drop(target);
		target_free(target);
	}
	return error;
}

void target_recovery_run(struct supervisor *supervisor)
{
	struct tids pids = { 0 };

	journal_pids(supervisor, &pids);
	for (size_t i = 0; i < pids.count; i++) {
		_cleanup_error_ struct error *error = find_again(supervisor, pids.items[i]);

		if (error)
			log_line("process %d: not found again: %s", pids.items[i],
				 error_text(error));
	}
	vec_free(&pids);
}
