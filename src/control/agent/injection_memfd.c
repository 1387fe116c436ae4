/*
 * injection_memfd.c - the memory files that the target and the controller share.
 *
 * A remote call creates a memfd in the target, and the controller fetches a copy of the descriptor.
 * It sizes the file, maps it writable here, and only then seals it (H25).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "beacon.h"
#include "huge_pool.h"
#include "injection.h"
#include "control/remote/pass_fd.h"
#include "control/remote/rlimits.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define AGENT_NOEXEC_SEAL 0x0008u /* MFD_NOEXEC_SEAL, Linux 6.3: forbids execve, not mmap */

uint64_t injection_memfd_flags(const struct injection *in)
{
	return MFD_CLOEXEC | MFD_ALLOW_SEALING | (in->no_seal ? 0 : AGENT_NOEXEC_SEAL);
}

static struct error *create_once(struct injection *in, taddr name, int64_t *ret_result)
{
	struct error *err = remote_do(in->remote, ret_result, SYS_memfd_create, name.v,
				      injection_memfd_flags(in));

	if (err || *ret_result != -EINVAL || in->no_seal)
		return err;
	in->no_seal = true;
	return remote_do(in->remote, ret_result, SYS_memfd_create, name.v,
			 injection_memfd_flags(in));
}

/* Creates a memfd in the target, even if the target has used up its descriptors. */
static struct error *create(struct injection *in, const char *name, int *ret_fd)
{
	struct rlimits limits = { 0 };
	int64_t result = 0;
	taddr at;
	struct error *err = remote_put(in->remote, name, strlen(name) + 1, &at);

	if (!err)
		err = create_once(in, at, &result);
	if (!err && result == -EMFILE && rlimits_raise(in->proc->pid, RLIMIT_NOFILE, 16, &limits)) {
		err = create_once(in, at, &result);
		rlimits_restore(&limits);
	}
	if (err)
		return err;
	if (result == -EMFILE)
		return error_new(
			ERROR_FAILED,
			"process %d has no free file descriptor: raise its limit (prlimit -n)",
			in->proc->pid);
	if (result < 0)
		return error_errno((int)-result, "cannot make memory to share with process %d",
				   in->proc->pid);
	*ret_fd = (int)result;
	return NULL;
}

/* Fetches a copy of the target's descriptor. Compares the two files, since the borrowed thread may
 * have a descriptor table of its own. */
static struct error *fetch(struct injection *in, int there, int *ret_fd)
{
	char path[96];
	struct stat mine, theirs;
	pid_t tid = remote_thread(in->remote);
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_getfd, in->proc->pidfd, there, 0);

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", in->proc->pid, tid, there);
	if (stat(path, &theirs))
		return error_errno(errno, "cannot share memory with process %d", in->proc->pid);
	if (fd >= 0 &&
	    (fstat(fd, &mine) || mine.st_ino != theirs.st_ino || mine.st_dev != theirs.st_dev)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return error_errno(errno, "cannot share memory with process %d", in->proc->pid);
	*ret_fd = take_fd(&fd);
	return NULL;
}

struct error *injection_memfd_create(struct injection *in, const char *name, int *ret_there,
				     int *ret_fd)
{
	struct error *err = create(in, name, ret_there);

	return err ? err : fetch(in, *ret_there, ret_fd);
}

struct error *injection_memfd_prepare(int fd, uint64_t size, int seals, void *at, void **ret_memory)
{
	if (ftruncate(fd, (off_t)size))
		return errno == EFBIG ?
			       error_new(ERROR_FAILED,
					 "shared memory of %" PRIu64 " KiB is larger than files may "
					 "be (raise the limit of dyntrace with 'ulimit -f')",
					 size >> 10) :
			       error_errno(errno, "cannot size the shared memory");
	void *memory = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd,
			    0);
	if (memory == MAP_FAILED)
		return error_errno(errno, "cannot map the shared memory here");
	madvise(memory, size, MADV_DONTFORK);
	if (fcntl(fd, F_ADD_SEALS, seals)) {
		int number = errno;

		if (!at)
			munmap(memory, size);
		return error_errno(number, "cannot seal the shared memory");
	}
	*ret_memory = memory;
	return NULL;
}

struct error *injection_memfd_identify(int fd, uint64_t *ret_device, uint64_t *ret_inode)
{
	struct stat stat;

	if (fstat(fd, &stat))
		return error_errno(errno, "cannot look at the shared memory");
	*ret_device = stat.st_dev;
	*ret_inode = stat.st_ino;
	return NULL;
}

struct error *injection_memfd_make_code(struct injection *in)
{
	struct agent *agent = in->agent;
	void *reserved, *memory;
	struct error *err =
		injection_memfd_create(in, "dyntrace-code", &in->code_there, &agent->code_fd);

	if (err)
		return err;
	reserved = beacon_reserve(DT_CODE_SIZE);
	if (!reserved)
		return error_errno(errno, "cannot map the shared memory here");
	err = injection_memfd_prepare(
		agent->code_fd, DT_CODE_SIZE,
		F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL, reserved, &memory);
	if (err) {
		beacon_release(reserved, DT_CODE_SIZE);
		return err;
	}
	agent->control = memory;
	agent->has_beacon = true;
	return injection_memfd_identify(agent->code_fd, &agent->code_device, &agent->code_inode);
}

struct error *injection_memfd_make_pool(struct injection *in)
{
	struct agent *agent = in->agent;
	void *memory, *reserved;
	struct error *err =
		injection_memfd_create(in, AGENT_POOL_NAME, &in->pool_there, &agent->pool_fd);

	if (err)
		return err;
	reserved = huge_pool_reserve(agent->pool_size);
	err = injection_memfd_prepare(agent->pool_fd, agent->pool_size,
				      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, reserved, &memory);
	if (err && reserved)
		munmap(reserved, agent->pool_size);
	if (err)
		return err;
	agent->pool = memory;
	return injection_memfd_identify(agent->pool_fd, &agent->pool_device, &agent->pool_inode);
}

struct error *injection_memfd_share_pool(struct injection *in, const struct agent *other)
{
	struct agent *agent = in->agent;

	agent->pool_shared = true;
	agent->pool = other->pool;
	agent->pool_device = other->pool_device;
	agent->pool_inode = other->pool_inode;
	return pass_fd(in->remote, in->proc, other->pool_fd, &in->pool_there);
}

struct error *injection_memfd_close(struct injection *in)
{
	int *fds[] = { &in->code_there, &in->pool_there };
	struct error *err = NULL;

	for (size_t i = 0; i < 2 && !err; i++) {
		int64_t result;

		if (*fds[i] >= 0)
			err = remote_do(in->remote, &result, SYS_close, (uint64_t)*fds[i]);
		*fds[i] = -1;
	}
	return err;
}
