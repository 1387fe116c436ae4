/*
 * agent_share.c - memory beside the pool that the target, its children and the controller share.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "control/base/cleanup.h"
#include "injection.h"
#include "control/remote/remote_map.h"

static struct error *share(struct injection *in, const char *name, uint64_t size, void **ret_here,
			   int *ret_fd, struct dt_share *ret_share)
{
	struct remote_map_request request = { .size = size,
					      .prot = PROT_READ | PROT_WRITE,
					      .flags = MAP_SHARED | MAP_NORESERVE,
					      .what = name };
	_cleanup_close_ int fd = -1;
	struct dt_share made = { .size = size };
	void *memory = NULL;
	taddr at;
	struct error *err;

	if ((err = injection_memfd_create(in, name, &in->pool_there, &fd)) ||
	    (err = injection_memfd_prepare(fd, size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
					   NULL, &memory)))
		return err;
	request.fd = in->pool_there;
	err = injection_memfd_identify(fd, &made.device, &made.inode);
	if (!err)
		err = remote_map_add(in->remote, in->proc, &request, &at);
	if (!err && (err = injection_map_leave_out(in, at, size)))
		error_free(remote_map_remove(in->remote, at, size));
	if (err) {
		munmap(memory, size);
		return err;
	}
	made.address = at.v;
	*ret_share = made;
	*ret_here = memory;
	*ret_fd = take_fd(&fd) + 1;
	return NULL;
}

struct error *agent_share(struct stop *stop, struct agent *agent, const char *name, uint64_t size,
			  void **ret_here, taddr *ret_there, int *ret_fd)
{
	struct injection in = { .stop = stop, .proc = agent->proc, .agent = agent, .code_there = -1,
				.pool_there = -1 };
	struct dt_control *control = agent->control;
	uint32_t index = control->share_count;
	struct error *err;

	if (index >= DT_SHARES_MAX)
		return error_new(
			ERROR_FAILED,
			"cannot share more memory with process %d: detach from it first",
			agent->proc->pid);
	if ((err = remote_begin(stop, &in.remote)))
		return err;
	err = share(&in, name, size, &agent->shares[index], &agent->share_fds[index],
		    &control->shares[index]);
	error_free(injection_memfd_close(&in));
	struct error *end = remote_end(in.remote);
	if (err || end) {
		if (err)
			error_free(end);
		return err ? err : end;
	}
	__atomic_store_n(&control->share_count, index + 1, __ATOMIC_RELEASE);
	*ret_here = agent->shares[index];
	*ret_there = taddr_of(control->shares[index].address);
	if (ret_fd)
		*ret_fd = agent->share_fds[index] - 1;
	return NULL;
}
