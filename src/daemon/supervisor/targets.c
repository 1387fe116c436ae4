/*
 * targets.c - processes with the agent, and their workers.
 *
 * A worker gets requests one after the other and answers in that order. The first, WIRE_CONFIGURE,
 * makes it attach; if that fails, so does all that was asked behind it, and the target is
 * forgotten. A worker that ends by itself while its process lives is replaced, and what the journal
 * has is asked for again; three times in a minute, then no more.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "supervisor.h"

#define DEATHS_MAX 3
#define DEATHS_NS (60 * 1000000000ULL)

static void worker_ready(struct loop_source *source, uint32_t events);

struct target *target_find(struct supervisor *supervisor, pid_t pid)
{
	for (size_t i = 0; i < supervisor->targets.count; i++) {
		if (supervisor->targets.items[i]->pid == pid)
			return supervisor->targets.items[i];
	}
	return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct error *target_create(struct supervisor *supervisor, pid_t pid,
				   const struct process *process, struct target **ret_target)
{
	if (supervisor->targets.count >= TARGETS_MAX)
		return error_new(ERROR_FAILED,
				 "%d processes have the agent: no more than that at once",
				 TARGETS_MAX);
	struct target *target = calloc(1, sizeof(*target));
	if (!target || !vec_push(&supervisor->targets, target)) {
		free(target);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*target =
		(struct target){ .supervisor = supervisor,
				 .pid = pid,
				 .process = *process,
				 .loaded = "injected",
				 .source = { .fd = -1 },
				 .channel = { .fd = -1, .to_send = -1, .fds = { -1, -1, -1, -1 } },
				 .replay = SIZE_MAX };
	*ret_target = target;
	return NULL;
}

static void forget_worker(struct target *target)
{
	_cleanup_free_ char *path = spawn_socket_path(target->supervisor, target->pid);

	if (!target->has_worker)
		return;
	loop_remove(&target->supervisor->loop, &target->source);
	channel_close(&target->channel);
	target->source.fd = -1;
	target->has_worker = target->attached = target->leaving = target->gone = false;
	target->worker = 0;
	target->tracepoints = 0;
	target->waited.count = 0;
	if (target->trace) {
		free(target->old_trace);
		target->old_trace = take_ptr(&target->trace);
	}
	if (path)
		unlink(path);
}

void target_free(struct target *target)
{
	struct supervisor *supervisor = target->supervisor;

	forget_worker(target);
	if (target->source.fd >= 0) { /* its pidfd */
		loop_remove(&supervisor->loop, &target->source);
		close(target->source.fd);
	}
	for (size_t i = 0; i < supervisor->targets.count; i++) {
		if (supervisor->targets.items[i] == target) {
			supervisor->targets.items[i] =
				supervisor->targets.items[--supervisor->targets.count];
			break;
		}
	}
	journal_free(target);
	vec_free(&target->calls);
	vec_free(&target->waited);
	free(target->old_trace);
	free(target);
	supervisor_end_if_idle(supervisor);
}

/* The error is copied to each. */
static void fail_calls(struct target *target, const struct error *error)
{
	while (target->calls.count) {
		struct request *request = target->calls.items[--target->calls.count].request;

		if (!request)
			continue;
		request_note(request, error_new(error_kind(error), "%s", error_text(error)));
		request->calls--;
		request_settle(request);
	}
}

/* ---- registered, without a worker ------------------------------------------------------------ */

static void process_ended(struct loop_source *source, uint32_t events)
{
	struct target *target = (struct target *)((char *)source - offsetof(struct target, source));

	(void)events;
	events_tell(target->supervisor, target->pid, target->process.name, "exited", NULL);
	target_free(target);
}

static struct error *watch_process(struct target *target)
{
	int fd = pidfd_open(target->pid, 0);

	if (fd < 0)
		return error_new(ERROR_GONE, "process %d has ended", target->pid);
	target->source = (struct loop_source){ .fd = fd, .ready = process_ended };
	struct error *error = loop_add(&target->supervisor->loop, &target->source, EPOLLIN);
	if (error) {
		close(fd);
		target->source.fd = -1;
	}
	return error;
}

static size_t registered_of(const struct supervisor *supervisor, uid_t uid)
{
	size_t count = 0;

	for (size_t i = 0; i < supervisor->targets.count; i++)
		count += supervisor->targets.items[i]->process.user.uid == uid;
	return count;
}

struct error *target_register(struct supervisor *supervisor, pid_t pid,
			      const struct process *process, const char *loaded,
			      struct target **ret_target)
{
	struct target *target = target_find(supervisor, pid);
	struct error *error = NULL;

	if (!target && process->user.uid != 0 &&
	    registered_of(supervisor, process->user.uid) >= REGISTERED_OF_USER_MAX)
		return error_new(ERROR_FAILED, "too many processes of one user");
	if (!target) {
		error = target_create(supervisor, pid, process, &target);
		if (!error && (error = watch_process(target)))
			target_free(target);
		if (!error)
			events_tell(supervisor, pid, process->name, "attached", loaded);
		if (!error)
			target->told = true;
	}
	if (error)
		return error;
	target->process = *process;
	target->loaded = loaded;
	*ret_target = target;
	return NULL;
}

/* ---- workers --------------------------------------------------------------------------------- */

void target_set_events(struct target *target)
{
	uint32_t events = EPOLLIN | EPOLLRDHUP;

	if (!channel_is_idle(&target->channel))
		events |= EPOLLOUT;
	loop_change(&target->supervisor->loop, &target->source, events);
}

bool target_push_call(struct target *target, struct request *request, enum wire_kind kind,
		      size_t entry)
{
	struct call call = { .request = request,
			     .kind = kind,
			     .sequence = ++target->sequence,
			     .since = now_ns(),
			     .entry = entry };

	if (!vec_push(&target->calls, call))
		return false;
	if (request)
		request->calls++;
	supervisor_sweep_soon(target->supervisor);
	return true;
}

void target_look(struct target *target)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_REGISTER, target->sequence + 1);
	wire_end(&out);
	if (!target->leaving && target_push_call(target, NULL, WIRE_REGISTER, SIZE_MAX)) {
		channel_send(&target->channel, &out);
		target_set_events(target);
	}
	wire_free(&out);
}

/* As it was told last. */
static bool is_recording(const struct target *target)
{
	bool recording = target->supervisor->recording;

	for (size_t i = 0; i < target->entries.count; i++) {
		enum wire_kind kind = target->entries.items[i].kind;

		if (kind == WIRE_START || kind == WIRE_STOP)
			recording = kind == WIRE_START;
	}
	return recording;
}

/* `keeper`: -1, or of the trace that the worker before it was writing. */
static void configure(struct target *target, int keeper)
{
	struct supervisor *supervisor = target->supervisor;
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_CONFIGURE, target->sequence + 1);
	wire_number(&out, WIRE_PID, (uint64_t)target->pid);
	wire_number(&out, WIRE_START_TIME, target->process.start_time);
	wire_number(&out, WIRE_RECORDING, is_recording(target));
	wire_number(&out, WIRE_BUFFER_SIZE, supervisor->options.buffer_size);
	wire_number(&out, WIRE_MODE, (uint64_t)supervisor->options.mode);
	/* that much will be asked for again */
	wire_number(&out, WIRE_TRACEPOINT_COUNT, target->entries.count);
	if (keeper >= 0)
		wire_text(&out, WIRE_OUTPUT, target->old_trace); /* a descriptor comes with it */
	wire_end(&out);
	bool pushed = target_push_call(target, NULL, WIRE_CONFIGURE, SIZE_MAX);
	if (pushed && keeper >= 0)
		channel_send_fd(&target->channel, &out, keeper);
	else if (pushed)
		channel_send(&target->channel, &out);
	else if (keeper >= 0)
		close(keeper);
	wire_free(&out);
}

static struct error *use_worker(struct target *target, int fd, int keeper)
{
	if (target->source.fd >= 0) { /* the pidfd of a registered process */
		loop_remove(&target->supervisor->loop, &target->source);
		close(target->source.fd);
	}
	target->source = (struct loop_source){ .fd = fd, .ready = worker_ready };
	channel_open(&target->channel, fd, WIRE_MESSAGE_MAX, WORKER_QUEUE_MAX);
	target->has_worker = true;
	struct error *error =
		loop_add(&target->supervisor->loop, &target->source, EPOLLIN | EPOLLRDHUP);
	if (!error)
		configure(target, keeper);
	else if (keeper >= 0)
		close(keeper);
	if (!error)
		target_set_events(target);
	return error;
}

static struct error *start_worker(struct target *target)
{
	int fd = -1;
	struct error *error = spawn_worker(target->supervisor, target, &fd);

	return error ? error : use_worker(target, fd, target_old_keeper(target));
}

struct error *target_start(struct supervisor *supervisor, pid_t pid, const struct process *process,
			   struct target **ret_target)
{
	struct target *target = target_find(supervisor, pid);
	struct error *error = NULL;

	if (target && target->has_worker && !target->leaving) {
		*ret_target = target;
		return NULL;
	}
	if (target && target->leaving)
		return error_new(ERROR_FAILED, "process %d is being let go: try again in a moment",
				 pid);
	if (!process->alive)
		return error_new(
			ERROR_GONE,
			"process %d (%s) has ended: its parent hasn't taken note of it yet", pid,
			process->name);
	if (!target)
		error = target_create(supervisor, pid, process, &target);
	if (error)
		return error;
	target->process = *process;
	error = start_worker(target);
	if (error && target->source.fd < 0)
		target_free(target);
	if (!error)
		*ret_target = target;
	return error;
}

/* ---- what the worker says -------------------------------------------------------------------- */

static void attach_done(struct target *target, const struct wire_message *reply)
{
	const char *state = wire_get_text(reply, WIRE_STATE);
	bool again = state && !strcmp(state, "again");

	target->attached = true;
	if (!again && !target->told && !target->entries.count)
		events_tell_at(target->supervisor, wire_get_number(reply, WIRE_TIME, 0),
			       target->pid, target->process.name, "attached", target->loaded);
	target->told = true;
	if (target->leaves_again) {
		target->leaves_again = false;
		return target_leave(target);
	}
	log_line("process %d (%s): %s", target->pid, target->process.name,
		 again ? "found again" : "attached");
	if (!again) {
		target->replay = 0;
		target_replay(target);
	}
	journal_note(target, NULL, NULL);
}

/* What its own calls brought. */
static void own_call_done(struct target *target, const struct call *call,
			  const struct wire_message *reply)
{
	struct error *error = wire_reply_error(reply);

	target->gone = call->kind == WIRE_DETACH;
	if (call->kind == WIRE_SETTLE)
		log_line("process %d (%s): settled%s%s", target->pid, target->process.name,
			 error ? ": " : "", error ? error_text(error) : "");
	if (call->kind == WIRE_REGISTER && error && error_kind(error) == ERROR_GONE)
		target_leave(target);
	if (call->kind != WIRE_CONFIGURE) {
		error_free(error);
		return;
	}
	if (!error)
		return attach_done(target, reply);
	log_line("process %d (%s): not attached: %s", target->pid, target->process.name,
		 error_text(error));
	target->gone = true;
	fail_calls(target, error);
	error_free(error);
}

static void request_done(struct target *target, const struct call *call,
			 const struct wire_message *reply)
{
	struct request *request = call->request;
	struct error *error = wire_reply_error(reply);

	if (!error && call->entry == SIZE_MAX)
		journal_note(target, request, reply);
	if (request->kind == WIRE_DETACH)
		target->gone = true;
	request_note(request, error);
	request->calls--;
	request_settle(request);
	if (call->entry != SIZE_MAX)
		target_replay(target);
}

/* Its first tracepoint has a trace now, or it goes on with that of the worker before. */
static void note_trace(struct target *target, const char *trace, const struct request *request)
{
	target->trace = strndup(trace, 4096);
	free(take_ptr(&target->old_trace));
	if (request)
		target->owner = request->who;
	journal_note(target, NULL, NULL);
}

static void handle_reply(struct target *target, const struct wire_message *reply)
{
	const char *trace = wire_get_text(reply, WIRE_OUTPUT);

	if (!target->calls.count || target->calls.items[0].sequence != reply->sequence) {
		log_line("process %d: its worker answers what nobody asked", target->pid);
		return;
	}
	struct call call = target->calls.items[0];
	memmove(target->calls.items, target->calls.items + 1, --target->calls.count * sizeof(call));
	target->tracepoints =
		(size_t)wire_get_number(reply, WIRE_TRACEPOINT_COUNT, target->tracepoints);
	if (trace && !target->trace)
		note_trace(target, trace, call.request);
	if (call.request)
		request_done(target, &call, reply);
	else
		own_call_done(target, &call, reply);
}

static void handle_message(struct target *target, const struct wire_message *message)
{
	struct request *request = target->calls.count ? target->calls.items[0].request : NULL;

	if (message->kind == WIRE_REPLY)
		handle_reply(target, message);
	else if (message->kind == WIRE_EVENT)
		events_forward(target, message);
	else if (message->kind == WIRE_ITEM || message->kind == WIRE_NOTE)
		request_forward(request, message, target->pid);
}

/* ---- its end --------------------------------------------------------------------------------- */

static bool is_same_process(const struct target *target)
{
	struct process now;
	_cleanup_error_ struct error *gone = process_read(target->pid, &now);

	return !gone && now.alive && now.start_time == target->process.start_time;
}

static bool may_start_again(struct target *target)
{
	uint64_t now = now_ns();

	if (now - target->first_death > DEATHS_NS) {
		target->first_death = now;
		target->deaths = 0;
	}
	return ++target->deaths <= DEATHS_MAX;
}

void target_worker_ended(struct target *target)
{
	bool alive = is_same_process(target);
	bool expected =
		target->leaving || target->gone || (!target->attached && !target->entries.count);
	_cleanup_error_ struct error *error =
		alive ? error_new(ERROR_FAILED, "the worker of process %d (%s) ended", target->pid,
				  target->process.name) :
			error_new(ERROR_GONE, "process %d (%s) has ended", target->pid,
				  target->process.name);
	bool again = alive && !expected && may_start_again(target);
	bool registered = strcmp(target->loaded, "injected") != 0;

	forget_worker(target);
	fail_calls(target, error);
	if (again) {
		log_line("process %d (%s): its worker died; starting another", target->pid,
			 target->process.name);
		_cleanup_error_ struct error *failed = start_worker(target);
		if (!failed)
			return;
		log_line("process %d: %s", target->pid, error_text(failed));
	}
	if (alive && !expected)
		log_line("process %d (%s): given up; 'dyntrace detach %d' cleans up", target->pid,
			 target->process.name, target->pid);
	journal_drop(target);
	if (alive && registered && !target->supervisor->ending) {
		_cleanup_error_ struct error *gone = watch_process(target);
		if (!gone)
			return;
	}
	target_free(target);
}

static void worker_ready(struct loop_source *source, uint32_t events)
{
	struct target *target = (struct target *)((char *)source - offsetof(struct target, source));
	struct wire_message message;

	if (events & EPOLLOUT)
		channel_flush(&target->channel);
	channel_fill(&target->channel);
	while (target->has_worker && channel_next(&target->channel, &message))
		handle_message(target, &message);
	if (target->channel.broken) {
		log_line("process %d: its worker: %s", target->pid,
			 error_text(target->channel.broken));
		if (target->worker)
			kill(target->worker, SIGKILL);
	}
	if (target->channel.broken || target->channel.ended || target->gone)
		target_worker_ended(target);
	else
		target_set_events(target);
}

/* ---- after a crash --------------------------------------------------------------------------- */

static int connect_worker(const struct supervisor *supervisor, pid_t pid)
{
	_cleanup_free_ char *path = spawn_socket_path(supervisor, pid);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (!path || fd < 0 || strlen(path) >= sizeof(address.sun_path))
		return -1;
	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return -1;
	return take_fd(&fd);
}

static struct error *find_again(struct supervisor *supervisor, pid_t pid)
{
	struct process process;
	struct target *target = NULL;
	struct error *error = process_read(pid, &process);

	if (error)
		journal_forget(supervisor, pid);
	else
		error = target_create(supervisor, pid, &process, &target);
	if (error)
		return error;
	if (!journal_read(target) || !process.alive) {
		error = error_new(ERROR_GONE, "process %d has ended", pid);
	} else {
		int fd = connect_worker(supervisor, pid);

		error = fd >= 0 ? use_worker(target, fd, -1) : start_worker(target);
		target->attached = fd >= 0; /* it says so in a moment */
	}
	if (error) {
		journal_drop(target);
		target_free(target);
	}
	return error;
}

void targets_find_again(struct supervisor *supervisor)
{
	struct tids pids = { 0 };

	journal_pids(supervisor, &pids);
	for (size_t i = 0; i < pids.count; i++) {
		_cleanup_error_ struct error *error = find_again(supervisor, pids.items[i]);

		if (error)
			log_line("process %d was not found again: %s", pids.items[i],
				 error_text(error));
	}
	vec_free(&pids);
}
