/*
 * locked - locks its memory, and gains no right to execute any.
 *	locked [--lock FLAGS] [--mdwe 1] [--limit BYTES] [--calls N]
 * FLAGS are mlockall's; --mdwe 1 is PR_SET_MDWE; --limit gives up CAP_IPC_LOCK and sets
 * RLIMIT_MEMLOCK, after locking. After "go" it calls foo N times and prints N.
 */
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "foo.h"
#include "handshake.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

static int obey_limit(rlim_t bytes)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0 } };
	struct rlimit limit = { bytes, RLIM_INFINITY };

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || syscall(SYS_capget, &header, data))
		return -1;
	limit.rlim_cur = bytes;
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	data[0].permitted &= ~(1u << CAP_IPC_LOCK);
	return setrlimit(RLIMIT_MEMLOCK, &limit) || syscall(SYS_capset, &header, data);
}

int main(int argc, char **argv)
{
	int lock = (int)handshake_option(argc, argv, "lock", 0);
	long mdwe = handshake_option(argc, argv, "mdwe", 0);
	long limit = handshake_option(argc, argv, "limit", 0);
	long calls = handshake_option(argc, argv, "calls", 1000);

	if (lock && mlockall(lock))
		return perror("mlockall"), 2;
	if (mdwe && prctl(PR_SET_MDWE, 1, 0, 0, 0))
		return perror("PR_SET_MDWE"), 4;
	if (limit && obey_limit((rlim_t)limit))
		return perror("RLIMIT_MEMLOCK"), 2;
	handshake(argc, argv);
	foo_many(calls);
	handshake(argc, argv);
	printf("%ld\n", calls);
	return 0;
}
