/*
 * wide_registers.c - let gdb 13 call functions where vector registers take more room than it knows.
 *
 * The kernel takes a thread's extended registers as a whole only, with 8 KiB of tiles (AMX) where
 * the processor has them. gdb 13 knows the first 2,696 bytes, and its calls in a process fail:
 * "Couldn't write extended state status: Bad address". This library, preloaded into gdb, adds what
 * the thread has in the rest.
 */
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static char whole[1 << 16];

long ptrace(enum __ptrace_request request, ...)
{
	static long (*next)(enum __ptrace_request request, ...);
	va_list list;

	va_start(list, request);
	int pid = va_arg(list, int);
	void *address = va_arg(list, void *), *data = va_arg(list, void *);
	va_end(list);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ptrace");
	struct iovec *some = data, all = { whole, sizeof(whole) };
	if (request != PTRACE_SETREGSET || (unsigned long)address != NT_X86_XSTATE ||
	    next(PTRACE_GETREGSET, pid, address, &all) || all.iov_len <= some->iov_len)
		return next(request, pid, address, data);
	memcpy(whole, some->iov_base, some->iov_len);
	return next(request, pid, address, &all);
}
