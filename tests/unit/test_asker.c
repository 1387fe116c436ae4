/*
 * The daemon's asker (D12) and the verdicts that it gives (E3), without a daemon: a process of its
 * own, and a target behind filters.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/proc/judged.h"
#include "control/remote/remote.h"
#include "control/stop/stop.h"
#include "daemon/asker/asker.h"

static bool deny(long number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* A process with a filter per number; another one each time it gets a byte: munmap is denied. */
struct fenced {
	pid_t pid;
	int talk;
};

static struct fenced start(const long *numbers, size_t count)
{
	int ends[2];
	char byte = 'r';

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (size_t i = 0; i < count; i++) {
			if (!deny(numbers[i]))
				_exit(1);
		}
		while (write(ends[1], &byte, 1) == 1 && read(ends[1], &byte, 1) == 1)
			deny(SYS_munmap);
		_exit(2);
	}
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[1]);
	return (struct fenced){ pid, ends[0] };
}

static void add_filter(const struct fenced *fenced)
{
	char byte = 'g';

	assert_int_equal(write(fenced->talk, &byte, 1), 1);
	assert_int_equal(read(fenced->talk, &byte, 1), 1);
}

static void end(struct fenced *fenced)
{
	kill(fenced->pid, SIGKILL);
	waitpid(fenced->pid, NULL, 0);
	close(fenced->talk);
}

static int skip_unless_allowed(void **state)
{
	(void)state;
	if (!filters_may_read()) {
		print_message("skipped: only root without a filter reads filters\n");
		skip();
	}
	return 0;
}

/* The asker as a child of ours; *ret_control: the supervisor's end of its socket. */
static pid_t start_asker(int *ret_control)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	pid_t pid = fork();
	if (!pid) {
		int end = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);

		syscall(SYS_close_range, 3, 9, 0);
		dup2(end, 3);
		syscall(SYS_close_range, 4, ~0u, 0);
		_exit(asker_main());
	}
	close(ends[1]);
	*ret_control = ends[0];
	return pid;
}

static void expect_end(pid_t pid)
{
	int status = -1;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_tells_what_filters_say(void **state)
{
	static const long numbers[] = { SYS_mount, SYS_memfd_create };
	static const uint64_t wakes[6] = { 0x1234, 1, 1 }, odd[6] = { 0x1234, 77, 1 };
	struct fenced fenced = start(numbers, 2);
	struct fence_verdict verdict = { 0 };
	struct fence fence;
	int control = -1;
	pid_t asker = start_asker(&control);

	(void)state;
	_cleanup_close_ int question = asker_hand(control, fenced.pid);
	assert_true(question >= 0);
	for (int i = 0; i < 3; i++) { /* again, whenever the worker likes */
		assert_null(asker_ask(question, 0, &verdict));
		assert_int_equal(verdict.most, 2);
	}
	verdict_fence(&verdict, &fence);
	assert_int_equal(fence_closed(&fence), FENCE_CONTROL);
	_cleanup_free_ char *text = fence_describe(&fence, FENCE_CONTROL);
	assert_string_equal(text, "kills for memfd_create");
	assert_int_equal(verdict_answer(&verdict, SYS_futex, wakes), SECCOMP_RET_ALLOW);
	/* not a call of ours: nobody has judged it, though the filter would allow it */
	assert_int_equal(verdict_answer(&verdict, SYS_futex, odd), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(verdict_answer(&verdict, SYS_getuid, wakes), SECCOMP_RET_KILL_PROCESS);
	add_filter(&fenced);
	assert_null(asker_ask(question, 0, &verdict));
	assert_int_equal(verdict.most, 3);
	end(&fenced);
	/* the worker still has its end */
	assert_int_equal(close(control), 0);
	struct error *error = asker_ask(question, 0, &verdict);
	assert_non_null(error);
	assert_int_equal(error_kind(error), ERROR_REFUSED);
	error_free(error);
	close(take_fd(&question));
	expect_end(asker); /* nobody can ask any more */
}

/* Names a process by its pid, with the pidfd of another: as if the pid had been used again since.
 * Gives the worker's end. */
static int hand_reused(int control, pid_t pid, int pidfd)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr head;
	} room = { .bytes = { 0 } };
	struct iovec part = { &pid, sizeof(pid) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = room.bytes,
				  .msg_controllen = sizeof(room.bytes) };
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	room.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
				      .cmsg_len = CMSG_LEN(2 * sizeof(int)) };
	memcpy(CMSG_DATA(&room.head), (int[]){ pidfd, ends[1] }, 2 * sizeof(int));
	assert_int_equal(sendmsg(control, &message, 0), sizeof(pid));
	close(ends[1]);
	return ends[0];
}

/* (D12) */
static void test_judges_the_named_process_only(void **state)
{
	struct fence_verdict verdict = { 0 };
	struct fenced fenced = start(NULL, 0);
	int control = -1;
	pid_t asker = start_asker(&control);

	(void)state;
	_cleanup_close_ int question = asker_hand(control, fenced.pid);
	assert_null(asker_ask(question, 0, &verdict));
	assert_int_equal(verdict.most, 0);
	/* half a pid means nobody else */
	uint16_t half = (uint16_t)getppid();
	assert_int_equal(send(question, &half, sizeof(half), 0), sizeof(half));
	assert_int_equal(recv(question, &verdict, sizeof(verdict), 0), sizeof(verdict));
	assert_string_equal(verdict.why, "");
	int pidfd = pidfd_open(fenced.pid, 0);
	end(&fenced);
	fenced = start(NULL, 0);
	close(question);
	question = hand_reused(control, fenced.pid, pidfd);
	close(pidfd);
	struct error *error = asker_ask(question, 0, &verdict);
	assert_non_null(error);
	assert_non_null(strstr(error_text(error), "has ended"));
	error_free(error);
	end(&fenced);
	assert_int_equal(asker_hand(control, fenced.pid), -1);
	close(control);
	close(take_fd(&question));
	expect_end(asker);
}

/* A process with memory mapped as the agent's code, and a child of it with a filter. */
static struct fenced start_with_child(pid_t *ret_child)
{
	static const long numbers[] = { SYS_memfd_create };
	struct fenced child;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid_t pid = fork();
	if (!pid) {
		int fd = memfd_create("dyntrace-code", 0);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fd < 0 || ftruncate(fd, 4096) ||
		    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) == MAP_FAILED)
			_exit(1);
		child = start(numbers, 1);
		if (write(ends[1], &child.pid, sizeof(child.pid)) == sizeof(child.pid))
			pause();
		_exit(2);
	}
	assert_int_equal(read(ends[0], ret_child, sizeof(*ret_child)), sizeof(*ret_child));
	close(ends[1]);
	return (struct fenced){ pid, ends[0] };
}

/* (D12) A worker names forked children, by dyntrace's code in their memory, and nobody else. */
static void test_judges_forked_children_only(void **state)
{
	pid_t child = 0, stranger_child = 0;
	struct fenced target = start_with_child(&child);
	struct fenced stranger = start_with_child(&stranger_child);
	const pid_t others[] = { stranger.pid, stranger_child, getpid(), 0x7fffffff, -1 };
	struct fence_verdict verdict = { 0 };
	struct fence fence;
	int control = -1;
	pid_t asker = start_asker(&control);

	(void)state;
	_cleanup_close_ int question = asker_hand(control, target.pid);
	assert_null(asker_ask(question, child, &verdict));
	verdict_fence(&verdict, &fence);
	assert_int_equal(fence_closed(&fence), FENCE_CONTROL);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct error *error = asker_ask(question, others[i], &verdict);

		assert_non_null(error);
		assert_non_null(strstr(error_text(error), i < 3 ? "hasn't forked" : "no process"));
		error_free(error);
	}
	assert_null(asker_ask(question, 0, &verdict)); /* its own: none */
	assert_int_equal(verdict.most, 0);
	end(&target);
	end(&stranger);
	struct error *error = asker_ask(question, child, &verdict);
	assert_non_null(error);
	error_free(error);
	close(control);
	close(take_fd(&question));
	expect_end(asker);
}

static struct error *answer_first(void *context, pid_t pid, struct fence_verdict *ret_verdict)
{
	(void)pid;
	*ret_verdict = *(struct fence_verdict *)context;
	return NULL;
}

/* (E3) A thread with more filters than were judged gets no call. */
static void test_holds_for_judged_filters_only(void **state)
{
	static const long numbers[] = { SYS_mount };
	static const uint64_t none[6];
	struct fence_verdict first = { 0 };
	struct asker stale = { answer_first, &first };
	struct fenced fenced = start(numbers, 1);
	struct proc *proc = NULL;
	int control = -1;
	pid_t asker = start_asker(&control);

	(void)state;
	_cleanup_close_ int question = asker_hand(control, fenced.pid);
	assert_null(asker_ask(question, 0, &first));
	for (int round = 0; round < 2; round++) {
		struct stop *stop = NULL;
		struct remote *remote = NULL;
		int64_t result = 0;

		assert_null(proc_open_asking(fenced.pid, &stale, &proc));
		assert_null(stop_all(proc, STOP_TIMEOUT_MS, &stop));
		struct error *error = remote_begin(stop, &remote);
		if (round == 0) {
			assert_null(error);
			assert_null(remote_call(remote, SYS_munmap, none, &result));
			assert_int_equal(result, -EINVAL);
			assert_null(remote_end(remote));
		} else {
			assert_non_null(error);
			assert_non_null(strstr(error_text(error), "has taken up another filter"));
			error_free(error);
		}
		stop_release(stop, NULL);
		proc_close(proc);
		add_filter(&fenced);
	}
	end(&fenced);
	close(control);
	close(take_fd(&question));
	expect_end(asker);
}

/* (E3) Of threads with different filters, those with more are known one by one. */
static void test_holds_for_judged_threads_only(void **state)
{
	const struct fence_verdict verdict = {
		.magic = VERDICT_MAGIC, .least = 1, .most = 3, .thread_count = 2,
		.threads = { { 100, 2, 5000 }, { 101, 3, 5001 } },
	};
	const struct fence_verdict bare = { .magic = VERDICT_MAGIC, .most = 1, .thread_count = 1,
					    .threads = { { 100, 1, 5000 } } };

	(void)state;
	assert_true(verdict_holds_for_any(&verdict, 2, 1));
	assert_false(verdict_holds_for_any(&verdict, 2, 2));
	assert_false(verdict_holds_for_any(&verdict, 0, 0));
	assert_true(verdict_holds_for_any(&bare, 0, 0));
	assert_false(verdict_holds_for_any(&bare, 2, 0)); /* a kernel that doesn't count */
	assert_false(verdict_holds_for_any(&bare, 1, 0));
	assert_true(verdict_holds_for(&verdict, &(struct verdict_thread){ 100, 2, 5000 }));
	assert_true(verdict_holds_for(&verdict, &(struct verdict_thread){ 101, 3, 5001 }));
	/* one more, another thread with that tid, a thread that nobody judged */
	assert_false(verdict_holds_for(&verdict, &(struct verdict_thread){ 100, 3, 5000 }));
	assert_false(verdict_holds_for(&verdict, &(struct verdict_thread){ 100, 2, 5001 }));
	assert_false(verdict_holds_for(&verdict, &(struct verdict_thread){ 102, 2, 5000 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holds_for_judged_threads_only),
		cmocka_unit_test_setup(test_tells_what_filters_say, skip_unless_allowed),
		cmocka_unit_test_setup(test_judges_the_named_process_only, skip_unless_allowed),
		cmocka_unit_test_setup(test_judges_forked_children_only, skip_unless_allowed),
		cmocka_unit_test_setup(test_holds_for_judged_filters_only, skip_unless_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
