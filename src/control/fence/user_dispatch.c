#include "user_dispatch.h"

#include <sys/ptrace.h>

#define SET_CONFIG 0x4210 /* PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG */
#define GET_CONFIG 0x4211
#define SYSCALL_LENGTH 2u

bool user_dispatch_read(pid_t tid, struct user_dispatch *ret_dispatch)
{
	struct user_dispatch dispatch = { 0 };

	if (ptrace((enum __ptrace_request)GET_CONFIG, tid, sizeof(dispatch), &dispatch) ||
	    !dispatch.on)
		return false;
	*ret_dispatch = dispatch;
	return true;
}

bool user_dispatch_write(pid_t tid, const struct user_dispatch *dispatch)
{
	return !ptrace((enum __ptrace_request)SET_CONFIG, tid, sizeof(*dispatch), dispatch);
}

bool user_dispatch_spares(const struct user_dispatch *dispatch, uint64_t at)
{
	return at + SYSCALL_LENGTH - dispatch->offset < dispatch->length;
}
