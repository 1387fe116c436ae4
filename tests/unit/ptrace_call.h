/*
 * ptrace_call.h - for tests that stand in front of the libc's ptrace, to do something just before
 * or after a request. Header only.
 */
#ifndef DYNTRACE_TESTS_PTRACE_CALL_H
#define DYNTRACE_TESTS_PTRACE_CALL_H

#include <stdarg.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

struct ptrace_call {
	enum __ptrace_request request;
	pid_t tid;
	void *address, *data;
};

static inline struct ptrace_call ptrace_call_read(enum __ptrace_request request, va_list list)
{
	struct ptrace_call call = { .request = request };

	call.tid = va_arg(list, pid_t);
	call.address = va_arg(list, void *);
	call.data = va_arg(list, void *);
	return call;
}

/* Makes the request; its result is that of the libc's function. */
static inline long ptrace_call_make(const struct ptrace_call *call)
{
	bool peeks = call->request == PTRACE_PEEKTEXT || call->request == PTRACE_PEEKDATA ||
		     call->request == PTRACE_PEEKUSER;
	long word = 0;
	long result = syscall(SYS_ptrace, (long)call->request, (long)call->tid, call->address,
			      peeks ? (void *)&word : call->data);

	return peeks && !result ? word : result;
}

#endif
