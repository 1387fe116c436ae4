#include "pass_fd.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "control/base/cleanup.h"

/* A message of one byte and one descriptor, as recvmsg wants it. */
struct parcel {
	struct msghdr head;
	struct iovec vector;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
};

/* `at`: the parcel's address in the process that uses it. */
static void parcel_fill(struct parcel *parcel, uint64_t at)
{
	parcel->vector = (struct iovec){ (void *)(at + offsetof(struct parcel, byte)), 1 };
	parcel->head =
		(struct msghdr){ .msg_iov = (struct iovec *)(at + offsetof(struct parcel, vector)),
				 .msg_iovlen = 1,
				 .msg_control = (void *)(at + offsetof(struct parcel, control)),
				 .msg_controllen = sizeof(parcel->control) };
}

static struct error *send_fd(int socket, int fd)
{
	struct parcel parcel = { .control.align = { .cmsg_len = CMSG_LEN(sizeof(int)),
						    .cmsg_level = SOL_SOCKET,
						    .cmsg_type = SCM_RIGHTS } };

	parcel_fill(&parcel, (uint64_t)&parcel);
	memcpy(CMSG_DATA(&parcel.control.align), &fd, sizeof(fd));
	if (sendmsg(socket, &parcel.head, MSG_NOSIGNAL) != 1)
		return error_errno(errno, "cannot hand over shared memory");
	return NULL;
}

static struct error *receive_there(struct remote *remote, struct proc *proc, int socket,
				   int *ret_there)
{
	struct parcel parcel = { 0 };
	int64_t result;
	taddr at, again;
	struct error *err = remote_put(remote, &parcel, sizeof(parcel), &at);

	if (!err) {
		parcel_fill(&parcel, at.v);
		err = remote_put(remote, &parcel, sizeof(parcel), &again);
	}
	assert(err || taddr_equal(at, again)); /* the scratch memory of one remote doesn't move */
	if (!err)
		err = remote_do(remote, &result, SYS_recvmsg, (uint64_t)socket,
				at.v + offsetof(struct parcel, head),
				MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (!err && result != 1)
		err = error_errno(result < 0 ? (int)-result : EPROTO,
				  "process %d didn't receive the shared memory", proc->pid);
	if (!err)
		err = mem_read(proc, at, &parcel, sizeof(parcel));
	if (!err && (parcel.control.align.cmsg_type != SCM_RIGHTS ||
		     parcel.control.align.cmsg_len != CMSG_LEN(sizeof(int))))
		err = error_new(ERROR_FAILED, "process %d has no free file descriptor", proc->pid);
	if (!err)
		memcpy(ret_there, CMSG_DATA(&parcel.control.align), sizeof(*ret_there));
	return err;
}

struct error *pass_fd(struct remote *remote, struct proc *proc, int fd, int *ret_there)
{
	int there[2] = { -1, -1 };
	int64_t result;
	taddr at;
	struct error *err = remote_put(remote, there, sizeof(there), &at);

	if (!err)
		err = remote_do(remote, &result, SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC,
				0, at.v);
	if (!err && result < 0)
		err = error_errno((int)-result, "cannot share memory with process %d", proc->pid);
	if (!err)
		err = mem_read(proc, at, there, sizeof(there));
	if (err)
		return err;
	_cleanup_close_ int socket = (int)syscall(SYS_pidfd_getfd, proc->pidfd, there[0], 0);
	err = socket < 0 ? error_errno(errno, "cannot share memory with process %d", proc->pid) :
			   send_fd(socket, fd);
	if (!err)
		err = receive_there(remote, proc, there[1], ret_there);
	for (size_t i = 0; i < 2; i++) {
		struct error *closing = remote_do(remote, &result, SYS_close, (uint64_t)there[i]);

		if (err)
			error_free(closing);
		else
			err = closing;
	}
	return err;
}
