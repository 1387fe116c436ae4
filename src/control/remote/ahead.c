#include "ahead.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call_list.h"
#include "control/proc/proc_status.h"
#include "remote_state.h"

#define DESK_OPEN 504u /* offset of the mask that the code unblocks; the code is before it, */
#define DESK_ROWS 512u /* and the list behind */
#define NOT_MADE INT64_MIN /* no call has this result */
#define READ_TRIES 8

_Static_assert(DESK_ROWS + AHEAD_MAX * sizeof(struct call_list_row) <= 4096, "desk");
_Static_assert(AHEAD_MAX <= FRAME_RESULTS, "results");

int ahead_add(struct ahead *list, long number, int fd_of, const uint64_t args[6])
{
	assert(fd_of < (int)list->count);
	if (list->count == AHEAD_MAX)
		return -1;
	struct ahead_call *call = &list->calls[list->count];
	*call = (struct ahead_call){ .number = number, .fd_of = fd_of };
	memcpy(call->args, args, sizeof(call->args));
	return (int)list->count++;
}

void ahead_set_desk(struct remote *remote, void *here, taddr there)
{
	struct proc *proc = remote->stop->proc;

	call_list_code(here, DESK_OPEN);
	remote->desk = proc->desk = here;
	remote->desk_there = proc->desk_there = there;
}

void ahead_forget_desk(struct proc *proc)
{
	proc->desk = NULL;
}

/* Signals that do nothing by default, and others that programs ignore (S10). SIGCONT does. */
int ahead_find_signal(const struct thread_status *status, uint64_t mask)
{
	static const struct {
		int number;
		bool by_default;
	} signals[] = { { SIGURG, true },   { SIGWINCH, true }, { SIGPIPE, false },
			{ SIGHUP, false },  { SIGUSR1, false }, { SIGUSR2, false },
			{ SIGCHLD, true } };
	uint64_t taken = status->caught | status->blocked | status->pending | mask;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		uint64_t bit = 1ULL << (signals[i].number - 1);

		if (!(taken & bit) && (signals[i].by_default || status->ignored & bit))
			return signals[i].number;
	}
	return 0;
}

/* ---- made ------------------------------------------------------------------------------------ */

/* Filters that don't let the list end don't let it begin. */
static bool may_unblock(struct remote *remote)
{
	taddr from = taddr_add(remote->desk_there, (int64_t)call_list_unblock());
	uint64_t args[6];

	call_list_unblock_args(remote->desk_there.v + DESK_OPEN, args);
	return remote_filters_allow(remote, SYS_rt_sigprocmask, args, from, false);
}

/* (S10) A dispatch that spares the calls of the C library doesn't spare those of the desk, and the
 * guard of one that is set aside (S7) takes a thread on the desk for one that is home. */
static bool may_make(struct remote *remote)
{
	struct user_dispatch dispatch;

	return remote->desk && remote->signal && remote->gadgets.restorer.v &&
	       !remote->dispatch.on && remote->stop->task_fd >= 0 &&
	       !user_dispatch_read(remote_thread(remote), &dispatch) && may_unblock(remote);
}

/* Writes the list to the desk, up to the first call that isn't allowed; returns its length. */
static size_t write_rows(struct remote *remote, const struct ahead *list)
{
	struct call_list_row *rows = (struct call_list_row *)(remote->desk + DESK_ROWS);
	taddr from = taddr_add(remote->desk_there, (int64_t)call_list_syscall());
	size_t count = 0;

	for (; count < list->count; count++) {
		const struct ahead_call *call = &list->calls[count];

		if (!remote_filters_allow(remote, call->number, call->args, from, call->fd_of >= 0))
			break;
		rows[count].number = (uint64_t)call->number;
		memcpy(rows[count].args, call->args, sizeof(call->args));
		rows[count].fd_from =
			call->fd_of < 0 ? 0 : remote->frame.results + 8 * (uint64_t)call->fd_of;
	}
	return count;
}

static struct error *run_rows(struct remote *remote, size_t count)
{
	struct user_regs_struct regs = remote->stop->threads.items[remote->index].regs;
	const struct call_list_run run = {
		.code = remote->desk_there.v,
		.rows = remote->desk_there.v + DESK_ROWS,
		.results = remote->frame.results,
		.count = count,
		.open = remote->desk_there.v + DESK_OPEN,
		.rsp = remote->frame.rsp,
	};
	uint64_t open = 1ULL << (remote->signal - 1);

	memcpy(remote->desk + DESK_OPEN, &open, sizeof(open));
	call_list_set(&regs, &run);
	struct error *err = remote_run_enter(remote, &regs, 0);
	/* not permitted: then the calls are made one by one */
	if (err || syscall(SYS_tgkill, remote->stop->proc->pid, remote_thread(remote),
			   remote->signal))
		return err;
	err = remote_run_until(remote, PTRACE_CONT, remote->signal, false);
	remote->paused = !err;
	return err;
}

static void note_results(struct remote *remote, const struct ahead *list, const int64_t *results,
			 size_t count)
{
	remote->made_count = remote->made_next = 0;
	for (size_t i = 0; i < count && results[i] != NOT_MADE; i++) {
		const struct ahead_call *call = &list->calls[i];
		struct remote_made *made = &remote->made[remote->made_count++];

		*made = (struct remote_made){ .number = call->number, .result = results[i] };
		memcpy(made->args, call->args, sizeof(made->args));
		if (call->fd_of >= 0)
			made->args[4] = (uint64_t)results[call->fd_of];
	}
}

/* Without the results nobody could undo what was made (H32). Their memory was written before, and
 * can be read again. */
static struct error *read_results(struct remote *remote, int64_t *results, size_t count)
{
	struct error *err = NULL;

	for (int i = 0; i < READ_TRIES; i++) {
		error_free(err);
		err = mem_read(remote->stop->proc, taddr_of(remote->frame.results), results,
			       count * sizeof(results[0]));
		if (!err || error_kind(err) == ERROR_GONE)
			break;
	}
	return err;
}

struct error *ahead_make(struct remote *remote, const struct ahead *list)
{
	int64_t results[AHEAD_MAX];
	struct error *err = ahead_undo(remote);

	if (err || !may_make(remote))
		return err;
	size_t count = write_rows(remote, list);
	if (count < 2)
		return NULL;
	for (size_t i = 0; i < count; i++)
		results[i] = NOT_MADE;
	err = mem_write(remote->stop->proc, taddr_of(remote->frame.results), results,
			count * sizeof(results[0]));
	if (!err)
		err = run_rows(remote, count);
	if (!err)
		err = read_results(remote, results, count);
	if (!err)
		note_results(remote, list, results, count);
	return err;
}

/* ---- asked for ------------------------------------------------------------------------------- */

static bool is_error(int64_t result)
{
	return result < 0 && result >= -4095;
}

/* A mapping over a part of the caller's own goes with the caller's. */
static struct error *undo_one(struct remote *remote, const struct remote_made *made)
{
	int64_t result;

	if (is_error(made->result))
		return NULL;
	if (made->number == SYS_memfd_create)
		return remote_call_now(remote, SYS_close,
				       (const uint64_t[6]){ (uint64_t)made->result }, &result);
	if (made->number == SYS_mmap && !(made->args[3] & MAP_FIXED))
		return remote_call_now(remote, SYS_munmap,
				       (const uint64_t[6]){ (uint64_t)made->result, made->args[1] },
				       &result);
	return NULL;
}

struct error *ahead_undo(struct remote *remote)
{
	size_t from = remote->made_next, to = remote->made_count;
	struct error *err = NULL;

	remote->made_next = remote->made_count = 0;
	while (to > from && !err)
		err = undo_one(remote, &remote->made[--to]);
	return err;
}

struct error *ahead_take(struct remote *remote, long number, const uint64_t args[6],
			 int64_t *ret_result, bool *ret_taken)
{
	const struct remote_made *made = &remote->made[remote->made_next];

	*ret_taken = remote->made_next < remote->made_count && made->number == number &&
		     !memcmp(made->args, args, sizeof(made->args));
	if (!*ret_taken)
		return ahead_undo(remote);
	remote->made_next++;
	*ret_result = made->result;
	return NULL;
}
