#include "asker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/agent/agent.h"
#include "control/base/cleanup.h"
#include "control/base/ready.h"
#include "control/base/vec.h"
#include "control/proc/proc_status.h"
#include "control/stop/stop.h"

#define CONTROL_FD 3
#define ANSWER_MS 10000 /* a stop takes STOP_TIMEOUT_MS at most */
#define QUESTIONS_MAX 4096
#define AT_WORK_MAX 32

struct question {
	pid_t pid;
	int pidfd;
	int fd; /* the worker */
	pid_t asked; /* just now: a process that this one has forked; 0: itself */
	int child; /* pidfd of the process that answers just now; -1: none */
};

struct asker {
	int control; /* the supervisor; -1: it is gone */
	VEC(struct question) questions;
};

/* ---- descriptors ---------------------------------------------------------------------------- */

union fds_room {
	char bytes[CMSG_SPACE(2 * sizeof(int))];
	struct cmsghdr head;
};

static bool send_process(int to, pid_t pid, const int fds[2])
{
	union fds_room room = { .bytes = { 0 } };
	struct iovec part = { &pid, sizeof(pid) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes,
				  .msg_controllen = sizeof(room.bytes) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(head), fds, 2 * sizeof(int));
	return sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(pid);
}

/* False: the supervisor is gone. */
static bool receive_process(int from, struct question *ret_question)
{
	union fds_room room = { .bytes = { 0 } };
	pid_t pid = 0;
	struct iovec part = { &pid, sizeof(pid) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes,
				  .msg_controllen = sizeof(room.bytes) };
	ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	int fds[2];

	*ret_question = (struct question){ .pid = 0 };
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n != (ssize_t)sizeof(pid) || !head || head->cmsg_type != SCM_RIGHTS ||
	    head->cmsg_len != CMSG_LEN(sizeof(fds)))
		return false;
	memcpy(fds, CMSG_DATA(head), sizeof(fds));
	*ret_question = (struct question){ .pid = pid, .pidfd = fds[0], .fd = fds[1], .child = -1 };
	return true;
}

/* ---- the process ---------------------------------------------------------------------------- */

static bool is_over(int pidfd)
{
	struct pollfd ready = { .fd = pidfd, .events = POLLIN };

	return poll(&ready, 1, 0) != 0;
}

/* A process that shares the memory (H13) is held, too, and has a folder of its own. */
static struct error *read_start(pid_t pid, struct verdict_thread *thread)
{
	struct thread_stat stat;
	struct error *error = proc_status_read_stat(pid, thread->tid, &stat);

	if (error && error_kind(error) == ERROR_GONE) {
		error_free(error);
		error = proc_status_read_stat(thread->tid, thread->tid, &stat);
	}
	if (!error)
		thread->start_time = stat.start_time;
	return error;
}

/* (D12) A process of the worker's choice: has the question's process forked it? From here on it is
 * that program, or no stop succeeds. */
static struct error *check_forked(const struct question *question, const struct proc *asked)
{
	_cleanup_(cleanup_proc) struct proc *proc = NULL;
	bool shared = false;
	struct error *error = proc_open_plain(question->pid, &proc);

	if (!error)
		error = holders_share_code(proc, asked, &shared);
	if (!error && !shared)
		error = error_new(ERROR_REFUSED, "process %d hasn't forked process %d",
				  question->pid, asked->pid);
	return error;
}

static struct error *judge(const struct question *question, struct fence_verdict *ret_verdict)
{
	struct proc *proc = NULL;
	struct stop *stop = NULL;
	VEC(struct verdict_thread) threads = { 0 };
	bool full = true;
	pid_t pid = question->asked ? question->asked : question->pid;
	struct error *error = proc_open_plain(pid, &proc);

	if (!error && question->asked)
		error = check_forked(question, proc);
	/* (D12) It lives, so the pid is still its own. */
	if (!error && is_over(question->pidfd))
		error = error_new(ERROR_GONE, "process %d has ended", question->pid);
	if (!error)
		error = stop_all(proc, STOP_TIMEOUT_MS, &stop);
	for (size_t i = 0; !error && full && i < stop_thread_count(stop); i++) {
		struct verdict_thread thread = { .tid = stop_thread_tid(stop, i) };

		error = read_start(pid, &thread);
		full = vec_push(&threads, thread);
	}
	if (!error)
		error = full ? verdict_make(threads.items, threads.count, ret_verdict) :
			       error_new(ERROR_FAILED, "out of memory");
	if (stop)
		stop_release(stop, NULL);
	proc_close(proc);
	vec_free(&threads);
	return error;
}

/* Only the child that answers runs this: the judge's stop is its own. */
__attribute__((noreturn)) static void answer(const struct question *question)
{
	struct fence_verdict verdict = { .magic = VERDICT_MAGIC };

	signal(SIGCHLD, SIG_DFL); /* a stop waits for threads */
	struct error *error = judge(question, &verdict);
	if (error)
		snprintf(verdict.why, sizeof(verdict.why), "%s", error_text(error));
	send(question->fd, &verdict, sizeof(verdict), MSG_DONTWAIT | MSG_NOSIGNAL);
	_exit(EXIT_SUCCESS);
}

/* ---- questions ------------------------------------------------------------------------------ */

static void drop(struct asker *asker, size_t i)
{
	struct question *question = &asker->questions.items[i];

	cleanup_close(&question->child);
	cleanup_close(&question->pidfd);
	cleanup_close(&question->fd);
	asker->questions.items[i] = asker->questions.items[--asker->questions.count];
}

static void hear_supervisor(struct asker *asker)
{
	struct question question;

	if (!receive_process(asker->control, &question)) {
		close(asker->control);
		asker->control = -1;
	}
	if (!question.pid)
		return;
	if (!vec_push(&asker->questions, question)) {
		close(question.pidfd);
		close(question.fd);
	} else if (asker->questions.count > QUESTIONS_MAX) {
		drop(asker, asker->questions.count - 1);
	}
}

/* A child that can't be made leaves the worker without an answer: it waits, and says so. */
static void begin_answer(struct question *question)
{
	pid_t pid = fork();

	if (pid == 0)
		answer(question);
	if (pid > 0)
		question->child = pidfd_open(pid, 0);
}

static void hear_worker(struct asker *asker, size_t i)
{
	struct question *question = &asker->questions.items[i];

	if (question->child >= 0) {
		close(question->child);
		question->child = -1;
		return;
	}
	question->asked = 0;
	ssize_t n = recv(question->fd, &question->asked, sizeof(question->asked), MSG_DONTWAIT);
	if (n != (ssize_t)sizeof(question->asked))
		question->asked = 0;
	if (n > 0)
		begin_answer(question);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		drop(asker, i);
}

/* While many children are at work, only their ends are waited for. */
static void choose_waits(const struct asker *asker, struct pollfd *waits)
{
	size_t count = asker->questions.count, at_work = 0;

	for (size_t i = 0; i < count; i++)
		at_work += asker->questions.items[i].child >= 0;
	for (size_t i = 0; i < count; i++) {
		const struct question *question = &asker->questions.items[i];
		int fd = question->child >= 0	 ? question->child :
			 at_work < AT_WORK_MAX ? question->fd :
						 -1;

		waits[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
	}
	waits[count] = (struct pollfd){ .fd = asker->control, .events = POLLIN };
}

/* False: out of memory. */
static bool turn(struct asker *asker)
{
	size_t count = asker->questions.count;
	_cleanup_free_ struct pollfd *ready = calloc(count + 1, sizeof(*ready));

	if (!ready)
		return false;
	choose_waits(asker, ready);
	if (poll(ready, count + 1, -1) < 0)
		return errno == EINTR;
	for (size_t i = count; i-- > 0;) { /* drop moves the last one */
		if (ready[i].revents)
			hear_worker(asker, i);
	}
	if (ready[count].revents)
		hear_supervisor(asker);
	return true;
}

/* Keeps what reading filters and a stop need. */
static bool drop_rights(void)
{
	static const unsigned needed[] = { CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_SYS_NICE };
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct now[2] = { 0 }, wanted[2] = { 0 };

	if (syscall(SYS_capget, &header, now))
		return false;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		wanted[needed[i] / 32].permitted |=
			now[needed[i] / 32].permitted & (1u << (needed[i] % 32));
	for (int i = 0; i < 2; i++)
		wanted[i].effective = wanted[i].permitted;
	return !syscall(SYS_capset, &header, wanted) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int asker_main(void)
{
	struct asker asker = { .control = CONTROL_FD };

	signal(SIGCHLD, SIG_IGN);
	prctl(PR_SET_NAME, "dyntraced-ask", 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* nobody takes a descriptor from it (H34) */
	fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC);
	if (chdir("/") || !drop_rights())
		return EXIT_FAILURE;
	while ((asker.control >= 0 || asker.questions.count) && turn(&asker))
		;
	return EXIT_SUCCESS;
}

/* ---- the supervisor's end ------------------------------------------------------------------- */

int asker_hand(int asker, pid_t pid)
{
	int ends[2];
	_cleanup_close_ int pidfd = pidfd_open(pid, 0);

	if (asker < 0 || pidfd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	bool sent = send_process(asker, pid, (int[]){ pidfd, ends[1] });
	close(ends[1]);
	if (sent)
		return ends[0];
	close(ends[0]);
	return -1;
}

bool asker_is_gone(int asker)
{
	struct pollfd ended = { .fd = asker, .events = POLLRDHUP };

	return poll(&ended, 1, 0) != 0;
}

int asker_connect(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(peer);

	if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
		return -1;
	strcpy(address.sun_path, path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.uid != 0)
		return -1;
	return take_fd(&fd);
}

/* ---- the worker's end ----------------------------------------------------------------------- */

struct error *asker_ask(int fd, pid_t child, struct fence_verdict *ret_verdict)
{
	struct fence_verdict verdict = { .magic = 0 };

	if (send(fd, &child, sizeof(child), MSG_NOSIGNAL) != (ssize_t)sizeof(child) ||
	    !ready_within(fd, POLLIN, ANSWER_MS) ||
	    recv(fd, &verdict, sizeof(verdict), MSG_DONTWAIT) != (ssize_t)sizeof(verdict) ||
	    verdict.magic != VERDICT_MAGIC || verdict.thread_count > VERDICT_THREADS_MAX)
		return error_new(ERROR_REFUSED,
				 "what its filter of system calls (seccomp) allows can't be read: the "
				 "daemon's asker doesn't answer");
	verdict.why[sizeof(verdict.why) - 1] = '\0';
	if (verdict.why[0])
		return error_new(ERROR_REFUSED, "%s", verdict.why);
	*ret_verdict = verdict;
	return NULL;
}
