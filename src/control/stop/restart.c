#include "restart.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

/* The kernel's internal error numbers, which programs never see. */
enum {
	RESTART_SYS = 512, /* restart, unless a handler without SA_RESTART runs */
	RESTART_NOINTR = 513, /* restart always */
	RESTART_NOHAND = 514, /* restart, unless a handler runs */
	RESTART_BLOCK = 516, /* the same, with the rest of a timeout */
};

/* Calls that end with EINTR after a stop, and have had no effect by then. */
static const long rewound[] = {
	SYS_epoll_wait,
	SYS_epoll_pwait,
	441 /* epoll_pwait2 */,
	SYS_semop,
	SYS_semtimedop,
	SYS_rt_sigtimedwait,
	SYS_io_getevents,
	333 /* io_pgetevents */,
	426 /* io_uring_enter */,
	/* inotify, and sockets with SO_RCVTIMEO or SO_SNDTIMEO */
	SYS_read,
	SYS_readv,
	SYS_write,
	SYS_writev,
	SYS_accept,
	SYS_accept4,
	SYS_connect,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_sendto,
	SYS_sendmsg,
	SYS_sendmmsg,
};

static bool in_call(const struct user_regs_struct *regs)
{
	return (int)regs->orig_rax >= 0 && regs->cs == 0x33;
}

bool restart_by_kernel(const struct user_regs_struct *regs)
{
	long result = (long)regs->rax;

	return in_call(regs) && (result == -RESTART_SYS || result == -RESTART_NOINTR ||
				 result == -RESTART_NOHAND || result == -RESTART_BLOCK);
}

bool restart_with_rest(const struct user_regs_struct *regs)
{
	return in_call(regs) && (long)regs->rax == -RESTART_BLOCK;
}

bool restart_by_hand(const struct user_regs_struct *regs)
{
	if (!in_call(regs) || (long)regs->rax != -EINTR)
		return false;
	for (size_t i = 0; i < sizeof(rewound) / sizeof(*rewound); i++) {
		if ((long)regs->orig_rax == rewound[i])
			return true;
	}
	return false;
}

void restart_rewind(struct user_regs_struct *regs)
{
	regs->rip -= 2;
	regs->rax = regs->orig_rax;
	regs->orig_rax = (unsigned long long)-1;
}

struct user_regs_struct restart_context(const struct user_regs_struct *regs, bool handler)
{
	struct user_regs_struct context = *regs;
	long result = (long)regs->rax;
	bool again = result == -RESTART_SYS || result == -RESTART_NOINTR || !handler;

	if (!restart_by_kernel(regs) && !restart_by_hand(regs))
		return context;
	if (again) {
		restart_rewind(&context);
	} else {
		context.rax = (unsigned long long)-EINTR;
		context.orig_rax = (unsigned long long)-1;
	}
	return context;
}

long restart_number(const unsigned char before[RESTART_MOVE_LENGTH])
{
	static const long with_rest[] = { SYS_poll, SYS_nanosleep, SYS_clock_nanosleep, SYS_futex };
	unsigned number;

	memcpy(&number, before + 1, sizeof(number));
	for (size_t i = 0; i < sizeof(with_rest) / sizeof(*with_rest); i++) {
		if (before[0] == 0xb8 && number == (unsigned long)with_rest[i])
			return (long)number;
	}
	return -1;
}
