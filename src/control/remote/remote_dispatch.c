/*
 * remote_dispatch.c - threads whose system calls are dispatched to themselves (S7).
 */
#include "control/base/cleanup.h"
#include "remote_state.h"

#define SYSCALL_AND_RET 3u /* bytes */

bool remote_dispatch_is_on(const struct remote *remote, size_t index)
{
	struct stop *stop = remote->stop;
	struct user_dispatch dispatch;
	uint8_t byte = DISPATCH_ALLOW + 1;

	if (stop->threads.items[index].state != HELD_STOPPED ||
	    !user_dispatch_read(stop->threads.items[index].tid, &dispatch))
		return false;
	_cleanup_error_ struct error *unreadable =
		dispatch.selector ?
			mem_read(stop->proc, taddr_of(dispatch.selector), &byte, sizeof(byte)) :
			NULL;
	if (!unreadable && byte == DISPATCH_ALLOW)
		return false;
	return !user_dispatch_spares(&dispatch, remote->gadgets.call.v) ||
	       !user_dispatch_spares(&dispatch, remote->gadgets.restorer.v + remote->gadgets.home);
}

bool remote_dispatch_set_aside(struct remote *remote)
{
	const struct user_dispatch off = { 0 };

	if (!user_dispatch_read(remote_thread(remote), &remote->dispatch))
		return false;
	uint64_t call = remote->gadgets.call.v, back = remote->gadgets.restorer.v;
	const struct user_dispatch_away away = {
		.stack = { remote->frame.low, remote->frame.low + remote->frame.size },
		.call = { call, call + SYSCALL_AND_RET + 1 },
		.back = { back, back + remote->gadgets.home + SYSCALL_AND_RET },
	};
	user_dispatch_guard(remote_thread(remote), &remote->dispatch, &away, &remote->guard);
	return user_dispatch_write(remote_thread(remote), &off);
}
