#include "fence.h"

#include <assert.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "answers.h"
#include "shared/tiles.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define SEALABLE (MFD_CLOEXEC | MFD_ALLOW_SEALING)
#define NOEXEC_SEAL 8u
#define WIPEONFORK 18
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define MASK_SIZE 8 /* of the kernel's sigset_t */

/* Arguments that may have any value: addresses, ids, descriptors, lengths, and registers that a
 * call of the agent leaves as they are. */
enum {
	ANY0 = 1,
	ANY1 = 2,
	ANY2 = 4,
	ANY3 = 8,
	ANY_LAST = 0x30, /* the last two */
	ANY_MAPPING = 0x33,
	ANY_ALL = 0x3f,
};

static const struct {
	unsigned part;
	const char *name;
	long number;
	unsigned any;
	uint64_t args[6];
} calls[] = {
	/* the agent: src/target. own_stack.h, thread.c, chunk.c, slow.c, notice.c, exec.c */
	{ FENCE_RECORD, "rt_sigprocmask", SYS_rt_sigprocmask, ANY1 | ANY2 | ANY_LAST,
	  { 2, 0, 0, MASK_SIZE } },
	{ FENCE_RECORD, "gettid", SYS_gettid, ANY_ALL, { 0 } },
	{ FENCE_RECORD, "getpid", SYS_getpid, ANY_ALL, { 0 } },
	{ FENCE_RECORD, "sched_yield", SYS_sched_yield, ANY_ALL, { 0 } },
	{ FENCE_RECORD, "futex", SYS_futex, ANY0, { 0, FUTEX_WAKE, 1 } },
	{ FENCE_RECORD, "futex", SYS_futex, ANY0 | ANY2 | ANY3, { 0, FUTEX_WAIT } },
	{ FENCE_RECORD, "clock_gettime", SYS_clock_gettime, ANY1 | ANY3 | ANY_LAST, { 1 } },
	/* safe_read.c, thread.c, retslot.c, handler.c */
	{ FENCE_READ, "process_vm_readv", SYS_process_vm_readv, ANY_ALL & ~32, { 0 } },
	{ FENCE_READ, "process_vm_writev", SYS_process_vm_writev, ANY_ALL & ~32, { 0 } },
	{ FENCE_LIVE, "tkill", SYS_tkill, ANY0 | ANY3 | ANY_LAST, { 0 } },
	{ FENCE_WORK, "clock_gettime", SYS_clock_gettime, ANY_ALL, { 0 } },
	{ FENCE_STACK, "sigaltstack", SYS_sigaltstack, ANY1 | ANY2 | ANY3 | ANY_LAST, { 0 } },
	{ FENCE_NAME, "prctl", SYS_prctl, ANY1 | ANY3 | ANY_LAST, { PR_GET_NAME } },
	/* lines/hit_write.c, lines/hit_line.c */
	{ FENCE_LINES, "write", SYS_write, ANY_ALL, { 0 } },
	{ FENCE_LINES, "pwritev2", SYS_pwritev2, ANY_ALL, { 0 } },
	{ FENCE_LINES, "sendto", SYS_sendto, ANY_ALL & ~ANY3, { 0, 0, 0, MSG_DONTWAIT | MSG_NOSIGNAL } },
	{ FENCE_LINES, "fstat", SYS_fstat, ANY_ALL, { 0 } },
	{ FENCE_LINES, "poll", SYS_poll, ANY_ALL & ~ANY1, { 0, 1 } },
	{ FENCE_LINES, "rt_sigpending", SYS_rt_sigpending, ANY_ALL & ~ANY1, { 0, MASK_SIZE } },
	{ FENCE_LINES, "rt_sigtimedwait", SYS_rt_sigtimedwait, ANY_ALL & ~ANY3,
	  { 0, 0, 0, MASK_SIZE } },
	{ FENCE_LINES, "clock_gettime", SYS_clock_gettime, ANY_ALL, { 0 } },
	/* trap.c, front.c, handler.c; guarded calls are the target's own, made from elsewhere */
	{ FENCE_SIGNAL, "rt_sigaction", SYS_rt_sigaction, ANY0 | ANY1 | ANY2, { 0, 0, 0, MASK_SIZE } },
	{ FENCE_SIGNAL, "rt_sigprocmask", SYS_rt_sigprocmask, ANY1, { 0, 0, 0, MASK_SIZE } },
	{ FENCE_SIGNAL, "rt_sigprocmask", SYS_rt_sigprocmask, ANY1, { 1, 0, 0, MASK_SIZE } },
	{ FENCE_SIGNAL, "tgkill", SYS_tgkill, ANY_ALL, { 0 } },
	{ FENCE_INFO, "rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, ANY_ALL, { 0 } },
	/* the controller: agent.c, injection_map.c, injection_memfd.c, code_window.c, sweep.c,
	 * remote_map.c, remote_sigaction.c, exits.c, drop.c */
	{ FENCE_CONTROL, "prctl", SYS_prctl, ANY1, { PR_GET_TSC } },
	{ FENCE_CONTROL, "memfd_create", SYS_memfd_create, ANY0, { 0, SEALABLE | NOEXEC_SEAL } },
	{ FENCE_CONTROL, "memfd_create", SYS_memfd_create, ANY0, { 0, SEALABLE } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING, { 0, 0, PROT_READ, MAP_SHARED } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ, MAP_SHARED | MAP_FIXED } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED_NOREPLACE } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ | PROT_WRITE, MAP_SHARED } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ | PROT_WRITE, PRIVATE } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ | PROT_WRITE, PRIVATE | MAP_FIXED } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ | PROT_WRITE, PRIVATE | MAP_FIXED_NOREPLACE } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_READ | PROT_WRITE, PRIVATE | MAP_NORESERVE | MAP_FIXED_NOREPLACE } },
	{ FENCE_CONTROL, "mmap", SYS_mmap, ANY_MAPPING,
	  { 0, 0, PROT_NONE, PRIVATE | MAP_FIXED_NOREPLACE } },
	{ FENCE_CONTROL, "mremap", SYS_mremap, ANY_ALL & ~ANY3, { 0, 0, 0, MREMAP_MAYMOVE } },
	{ FENCE_CONTROL, "mremap", SYS_mremap, ANY_ALL & ~ANY3, { 0, 0, 0, MREMAP_MAYMOVE | MREMAP_FIXED } },
	{ FENCE_CONTROL, "mremap", SYS_mremap, ANY_ALL & ~ANY3, { 0 } },
	{ FENCE_CONTROL, "munmap", SYS_munmap, ANY_ALL, { 0 } },
	{ FENCE_CONTROL, "munlock", SYS_munlock, ANY_ALL, { 0 } },
	{ FENCE_CONTROL, "close", SYS_close, ANY_ALL, { 0 } },
	{ FENCE_CONTROL, "madvise", SYS_madvise, ANY0 | ANY1, { 0, 0, WIPEONFORK } },
	{ FENCE_CONTROL, "madvise", SYS_madvise, ANY0 | ANY1, { 0, 0, MADV_DONTNEED } },
	{ FENCE_CONTROL, "madvise", SYS_madvise, ANY0 | ANY1, { 0, 0, MADV_DONTDUMP } },
	{ FENCE_CONTROL, "rt_sigaction", SYS_rt_sigaction, ANY0 | ANY1 | ANY2, { 0, 0, 0, MASK_SIZE } },
	/* plain_loads.c */
	{ FENCE_FRAME, "arch_prctl", SYS_arch_prctl, ANY_ALL & ~ANY0, { ARCH_GET_XCOMP_PERM } },
	/* sigframe.h */
	{ FENCE_HOME, "rt_sigreturn", SYS_rt_sigreturn, ANY_ALL, { 0 } },
	/* pass_fd.c */
	{ FENCE_SHARE, "socketpair", SYS_socketpair, ANY3, { AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC } },
	{ FENCE_SHARE, "recvmsg", SYS_recvmsg, ANY0 | ANY1,
	  { 0, 0, MSG_CMSG_CLOEXEC | MSG_DONTWAIT } },
};
#define CALLS (sizeof(calls) / sizeof(calls[0]))
_Static_assert(CALLS <= FENCE_CALLS_MAX, "fence.answers");

struct bpf_call fence_call(long number, const uint64_t args[6], uint64_t rip)
{
	struct bpf_call call = { .data = { .nr = (int)number,
					   .arch = AUDIT_ARCH_X86_64,
					   .instruction_pointer = rip } };

	memcpy(call.data.args, args, sizeof(call.data.args));
	return call;
}

struct bpf_call fence_row_call(size_t row)
{
	struct bpf_call call = fence_call(calls[row].number, calls[row].args, 0);

	call.unknown = BPF_UNKNOWN_RIP;
	for (unsigned i = 0; i < 6; i++) {
		if (calls[row].any >> i & 1)
			call.unknown |= BPF_UNKNOWN_ARG(i);
	}
	return call;
}

void fence_begin(struct fence *fence)
{
	*fence = (struct fence){ 0 };
	for (size_t i = 0; i < FENCE_CALLS_MAX; i++)
		fence->answers[i] = SECCOMP_RET_ALLOW;
}

static void judge(struct fence *fence, struct answers *known)
{
	for (size_t i = 0; i < CALLS; i++) {
		uint32_t answer = answers_ask(known, i);

		if (bpf_is_stricter(answer, fence->answers[i]))
			fence->answers[i] = answer;
	}
}

struct error *fence_unreadable(void)
{
	return error_new(ERROR_REFUSED,
			 "what its filter of system calls (seccomp) allows can't be read: run as root, "
			 "outside of containers, or run it without the filter");
}

struct error *fence_add_thread(struct fence *fence, struct answers *known, pid_t tid,
			       bool required)
{
	enum filters_found found = answers_read(known, tid);

	if (found != FILTERS_READ)
		return found == FILTERS_UNREADABLE && required ? fence_unreadable() : NULL;
	fence->threads++;
	if (known->generation == fence->judged)
		return NULL;
	fence->judged = known->generation;
	if (known->filters.count > fence->filters)
		fence->filters = known->filters.count;
	judge(fence, known);
	return NULL;
}

unsigned fence_closed(const struct fence *fence)
{
	unsigned parts = 0;

	for (size_t i = 0; i < CALLS; i++) {
		if (!filters_is_allowed(fence->answers[i]))
			parts |= calls[i].part;
	}
	return parts;
}

char *fence_describe(const struct fence *fence, unsigned parts)
{
	char text[FILTERS_TEXT_SIZE], *line;

	for (size_t i = 0; i < CALLS; i++) {
		uint32_t answer = fence->answers[i];

		if (!(calls[i].part & parts) || filters_is_allowed(answer))
			continue;
		if (asprintf(&line, "%s for %s", filters_text(answer, text), calls[i].name) < 0)
			return NULL;
		return line;
	}
	return NULL;
}

const char *fence_call_name(long number)
{
	for (size_t i = 0; i < CALLS; i++) {
		if (calls[i].number == number)
			return calls[i].name;
	}
	return "a system call";
}

size_t fence_rows(void)
{
	return CALLS;
}

size_t fence_find_row(long number, const uint64_t args[6])
{
	for (size_t row = 0; row < CALLS; row++) {
		bool same = calls[row].number == number;

		for (unsigned i = 0; i < 6 && same; i++)
			same = calls[row].any >> i & 1 || calls[row].args[i] == args[i];
		if (same)
			return row;
	}
	return CALLS;
}

long fence_row(size_t row, uint64_t ret_args[6])
{
	assert(row < CALLS);
	memcpy(ret_args, calls[row].args, sizeof(calls[row].args));
	return calls[row].number;
}
