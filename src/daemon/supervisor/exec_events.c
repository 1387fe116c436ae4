/*
 * exec_events.c - programs that are begun, while tracepoints wait for some.
 *
 * The kernel's process connector (netlink) tells of each execve at once, and costs nothing while no
 * program is begun. It serves root alone (before Linux 6.6), stays silent in another network
 * namespace, and knows processes by their numbers in the first pid namespace. So until the first
 * message comes, and in other pid namespaces, /proc is read every POLL_NS. When nothing waits none
 * of this is open.
 *
 * A poll sees a process that is new, or has executed a program since the last one. A program that
 * begins and ends between two polls isn't seen.
 */
#include "exec_events.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/proc.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/targets/process.h"
#include "supervisor.h"
#include "daemon/supervisor/targets/target.h"
#include "daemon/supervisor/requests/waiting.h"
#include "daemon/supervisor/targets/worker_calls.h"

#define POLL_NS 100000000ULL
#define RECEIVE_BUFFER (4 << 20)
/* the kernel's PROC_PID_INIT_INO, which never changes */
#define FIRST_PID_NAMESPACE 0xeffffffcUL
/* polls until a target that has begun another program is given up */
#define RETRIES_MAX 50

/* A process as the last poll saw it. */
struct seen {
	pid_t pid;
	uint64_t start_time, generation; /* as in struct process */
	char comm[64];
};

/* A process that has begun a program while the target of its old one still exists. */
struct retry {
	pid_t pid;
	unsigned left;
};

struct exec_events {
	struct supervisor *supervisor;
	struct loop_source netlink;
	struct loop_timer timer;
	bool is_told; /* by the kernel: no polls */
	VEC(struct seen) seen; /* by pid */
	VEC(struct retry) retries;
};

/* ---- programs that are begun ----------------------------------------------------------------- */

static void begun(struct exec_events *execs, pid_t pid)
{
	struct target *target = target_find(execs->supervisor, pid);
	struct retry retry = { pid, RETRIES_MAX };

	if (!target || !target->has_worker) {
		waiting_process(execs->supervisor, pid, NULL);
		return;
	}
	/* This may be the program that the worker traces, or another: then the worker has lost
	 * it. */
	worker_calls_look(target);
	if (vec_push(&execs->retries, retry) && !execs->timer.at)
		execs->timer.at = now_ns() + POLL_NS;
}

static void try_again(struct exec_events *execs)
{
	size_t kept = 0;

	for (size_t i = 0; i < execs->retries.count; i++) {
		struct retry retry = execs->retries.items[i];
		const struct target *target = target_find(execs->supervisor, retry.pid);

		if (!target || !target->has_worker)
			waiting_process(execs->supervisor, retry.pid, NULL);
		else if (--retry.left)
			execs->retries.items[kept++] = retry;
	}
	assert(kept <= execs->retries.count);
	execs->retries.count = kept;
}

/* ---- polls of /proc -------------------------------------------------------------------------- */

static int by_pid(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool is_new(const struct exec_events *execs, const struct seen *one)
{
	const struct seen *before =
		execs->seen.count ?
			bsearch(one, execs->seen.items, execs->seen.count, sizeof(*one), by_pid) :
			NULL;

	return !before || before->start_time != one->start_time ||
	       (before->generation && one->generation && before->generation != one->generation) ||
	       strcmp(before->comm, one->comm) != 0;
}

/* Replaces `seen` by the processes of now. `tell`: calls begun for those that are new. */
static void look(struct exec_events *execs, bool tell)
{
	struct exec_events now = { 0 };
	struct tids fresh = { 0 };
	DIR *folder = opendir("/proc");
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		struct process process;
		struct seen one = { .pid = (pid_t)strtol(entry->d_name, NULL, 10) };

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		_cleanup_error_ struct error *gone = process_read(one.pid, &process);
		if (gone)
			continue;
		one.start_time = process.start_time;
		one.generation = process.generation;
		memcpy(one.comm, process.comm, sizeof(one.comm));
		if (tell && is_new(execs, &one) && !vec_push(&fresh, one.pid))
			log_line("cannot look at process %d: out of memory", one.pid);
		if (!vec_push(&now.seen, one))
			break;
	}
	if (folder)
		closedir(folder);
	if (now.seen.count)
		qsort(now.seen.items, now.seen.count, sizeof(*now.seen.items), by_pid);
	vec_free(&execs->seen);
	execs->seen.items = now.seen.items;
	execs->seen.count = now.seen.count;
	execs->seen.room = now.seen.room;
	for (size_t i = 0; i < fresh.count; i++)
		begun(execs, fresh.items[i]);
	vec_free(&fresh);
}

static void poll_expired(struct loop_timer *timer)
{
	struct exec_events *execs =
		(struct exec_events *)((char *)timer - offsetof(struct exec_events, timer));

	if (!execs->supervisor->waiting.count)
		return;
	try_again(execs);
	if (!execs->is_told)
		look(execs, true);
	if (!execs->is_told || execs->retries.count)
		timer->at = now_ns() + POLL_NS;
}

/* ---- the kernel's messages ------------------------------------------------------------------- */

static void stop_listening(struct exec_events *execs)
{
	if (execs->netlink.fd < 0)
		return;
	assert(execs->netlink.ready);
	loop_remove(&execs->supervisor->loop, &execs->netlink);
	close(take_fd(&execs->netlink.fd));
	execs->is_told = false;
}

static void handle_event(struct exec_events *execs, const struct proc_event *event)
{
	if (!execs->is_told) {
		/* The last poll: for programs that were begun before the first message. */
		look(execs, true);
		execs->is_told = true;
		vec_free(&execs->seen);
	}
	if (event->what == PROC_EVENT_EXEC)
		begun(execs, event->event_data.exec.process_tgid);
}

/* The kernel dropped messages: polls until the next one comes. */
static void overrun(struct exec_events *execs)
{
	log_line("too many programs were begun at once: reading /proc instead");
	execs->is_told = false;
	execs->timer.at = now_ns();
}

static void netlink_ready(struct loop_source *source, uint32_t events)
{
	struct exec_events *execs =
		(struct exec_events *)((char *)source - offsetof(struct exec_events, netlink));
	_Alignas(struct nlmsghdr) char bytes[4096];
	struct sockaddr_nl from = { 0 };
	socklen_t size = sizeof(from);
	ssize_t got = recvfrom(source->fd, bytes, sizeof(bytes), MSG_DONTWAIT,
			       (struct sockaddr *)&from, &size);

	(void)events;
	if (got < 0 && errno == ENOBUFS)
		return overrun(execs);
	if (got <= 0 || from.nl_pid != 0) /* the kernel's number */
		return;
	for (struct nlmsghdr *message = (struct nlmsghdr *)bytes; NLMSG_OK(message, got);
	     message = NLMSG_NEXT(message, got)) {
		const struct cn_msg *connector = NLMSG_DATA(message);
		struct proc_event event = { .what = PROC_EVENT_NONE };
		size_t least =
			offsetof(struct proc_event, event_data) + sizeof(event.event_data.exec);

		if (message->nlmsg_len < NLMSG_LENGTH(sizeof(*connector) + least) ||
		    connector->id.idx != CN_IDX_PROC)
			continue;
		memcpy(&event, connector->data, least);
		handle_event(execs, &event);
	}
}

/* Only execve and the kernel's answer to the subscription pass: the daemon sleeps through the
 * rest. */
static void hear_only_execs(int fd)
{
	const uint32_t at =
		NLMSG_HDRLEN + sizeof(struct cn_msg) + offsetof(struct proc_event, what);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __builtin_bswap32(PROC_EVENT_NONE), 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __builtin_bswap32(PROC_EVENT_EXEC), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static bool subscribe(int fd)
{
	struct {
		struct nlmsghdr header;
		struct cn_msg connector;
		enum proc_cn_mcast_op operation;
	} __attribute__((packed)) message = {
		.header = { .nlmsg_len = sizeof(message),
			    .nlmsg_type = NLMSG_DONE,
			    .nlmsg_pid = (uint32_t)getpid() },
		.connector = { .id = { CN_IDX_PROC, CN_VAL_PROC },
			       .len = sizeof(message.operation) },
		.operation = PROC_CN_MCAST_LISTEN,
	};
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC };
	int size = RECEIVE_BUFFER;

	hear_only_execs(fd);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	return !bind(fd, (struct sockaddr *)&address, sizeof(address)) &&
	       send(fd, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message);
}

/* In another pid namespace the kernel refuses the subscription, but not the messages that it sends
 * because somebody else has subscribed: their numbers mean other processes, or none, here. */
static bool is_first_pid_namespace(void)
{
	struct stat namespace;

	return !stat("/proc/self/ns/pid", &namespace) && namespace.st_ino == FIRST_PID_NAMESPACE;
}

static void listen_to_kernel(struct exec_events *execs)
{
	if (!is_first_pid_namespace())
		return;

	int fd = socket(PF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);

	if (fd < 0)
		return;
	if (!subscribe(fd)) {
		close(fd);
		return;
	}
	execs->netlink = (struct loop_source){ .fd = fd, .ready = netlink_ready };
	_cleanup_error_ struct error *error =
		loop_add(&execs->supervisor->loop, &execs->netlink, EPOLLIN);
	if (error)
		close(take_fd(&execs->netlink.fd));
}

/* ---- start and end --------------------------------------------------------------------------- */

static struct exec_events *open_events(struct supervisor *supervisor)
{
	struct exec_events *execs = calloc(1, sizeof(*execs));

	if (!execs) {
		log_line("cannot notice programs that are begun: out of memory");
		return NULL;
	}
	execs->supervisor = supervisor;
	execs->netlink.fd = -1;
	execs->timer.expired = poll_expired;
	loop_add_timer(&supervisor->loop, &execs->timer);
	return execs;
}

void exec_events_update(struct supervisor *supervisor)
{
	struct exec_events *execs = supervisor->execs;

	if (!supervisor->waiting.count) {
		if (execs) {
			stop_listening(execs);
			execs->timer.at = 0;
			vec_free(&execs->seen);
			execs->retries.count = 0;
		}
		return;
	}
	if (!execs)
		execs = supervisor->execs = open_events(supervisor);
	if (!execs || execs->timer.at || execs->is_told)
		return;
	if (execs->netlink.fd < 0)
		listen_to_kernel(execs);
	look(execs, false);
	execs->timer.at = now_ns() + POLL_NS;
}

void exec_events_free(struct supervisor *supervisor)
{
	struct exec_events *execs = supervisor->execs;

	if (!execs)
		return;
	stop_listening(execs);
	vec_free(&execs->seen);
	vec_free(&execs->retries);
	assert(supervisor->loop.epoll_fd < 0); /* its timers are not used any more */
	free(execs);
	supervisor->execs = NULL;
}
