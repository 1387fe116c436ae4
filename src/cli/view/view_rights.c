#include "view_rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_MAX (64ULL << 20)
#define MAPPED_MAX (16ULL << 30) /* files: programs and their debug information */

/* Allowed whatever the arguments. */
static const int harmless[] = {
	SYS_read,
	SYS_pread64,
	SYS_readv,
	SYS_close,
	SYS_lseek,
	SYS_fstat,
	SYS_stat,
	SYS_lstat,
	SYS_newfstatat,
	SYS_statx,
	SYS_getdents64,
	SYS_access,
	SYS_faccessat,
	SYS_faccessat2,
	SYS_readlink,
	SYS_readlinkat,
	SYS_getcwd,
	SYS_munmap,
	SYS_mremap,
	SYS_madvise,
	SYS_brk,
	SYS_exit,
	SYS_exit_group,
	SYS_futex,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigreturn,
	SYS_sigaltstack,
	SYS_getpid,
	SYS_gettid,
	SYS_getuid,
	SYS_geteuid,
	SYS_getgid,
	SYS_getegid,
	SYS_clock_gettime,
	SYS_clock_nanosleep,
	SYS_gettimeofday,
	SYS_getrandom,
	SYS_getrusage,
	SYS_sysinfo,
	SYS_uname,
	SYS_sched_yield,
	SYS_restart_syscall,
};
#define HARMLESS_COUNT (sizeof(harmless) / sizeof(harmless[0]))

#define ALLOW(filter, ...) (!seccomp_rule_add(filter, SCMP_ACT_ALLOW, __VA_ARGS__))
/* Argument `number` has none of these bits. */
#define WITHOUT(number, bits) SCMP_CMP(number, SCMP_CMP_MASKED_EQ, bits, 0)

#define NOT_READING (O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))

static bool allow_calls(scmp_filter_ctx filter)
{
	bool done = true;

	for (size_t i = 0; i < HARMLESS_COUNT && done; i++)
		done = ALLOW(filter, harmless[i], 0);
	return done && ALLOW(filter, SYS_open, 1, WITHOUT(1, NOT_READING)) &&
	       ALLOW(filter, SYS_openat, 1, WITHOUT(2, NOT_READING)) &&
	       ALLOW(filter, SYS_mmap, 1, WITHOUT(2, PROT_EXEC)) &&
	       ALLOW(filter, SYS_mprotect, 1, WITHOUT(2, PROT_EXEC)) &&
	       ALLOW(filter, SYS_write, 1, SCMP_A0(SCMP_CMP_EQ, STDOUT_FILENO)) &&
	       ALLOW(filter, SYS_writev, 1, SCMP_A0(SCMP_CMP_EQ, STDOUT_FILENO)) &&
	       ALLOW(filter, SYS_ioctl, 1, SCMP_A1(SCMP_CMP_EQ, TCGETS)) &&
	       ALLOW(filter, SYS_fcntl, 1, SCMP_A1(SCMP_CMP_EQ, F_GETFL)) &&
	       ALLOW(filter, SYS_fcntl, 1, SCMP_A1(SCMP_CMP_EQ, F_GETFD)) &&
	       ALLOW(filter, SYS_fcntl, 1, SCMP_A1(SCMP_CMP_EQ, F_SETFD)) &&
	       ALLOW(filter, SYS_fcntl, 1, SCMP_A1(SCMP_CMP_EQ, F_DUPFD_CLOEXEC)) &&
	       /* abort(), which the parent reports */
	       ALLOW(filter, SYS_tgkill, 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
}

/* seccomp_load sets no_new_privs, too. */
static struct error *filter_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	bool made = filter &&
		    !seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) &&
		    allow_calls(filter);
	int failed = made ? -seccomp_load(filter) : ENOMEM;

	seccomp_release(filter);
	return failed ? error_errno(failed, "cannot give up system calls") : NULL;
}

/* Keeps, of root's, reading any file. */
static struct error *drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct now[2] = { 0 }, wanted[2] = { 0 };

	if (syscall(SYS_capget, &header, now))
		return error_errno(errno, "cannot give up capabilities");
	wanted[0].permitted = now[0].permitted & (1u << CAP_DAC_READ_SEARCH);
	wanted[0].effective = now[0].effective & wanted[0].permitted;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) ||
	    syscall(SYS_capset, &header, wanted))
		return error_errno(errno, "cannot give up capabilities");
	return NULL;
}

/* Lowers a limit, for good; leaves a lower one. */
static bool lower(int resource, uint64_t value)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit))
		return false;
	if (limit.rlim_cur > value)
		limit.rlim_cur = value;
	limit.rlim_max = limit.rlim_cur;
	return !setrlimit((__rlimit_resource_t)resource, &limit);
}

/* A sanitizer's shadow memory would be over every limit. */
#ifdef __SANITIZE_ADDRESS__
#define LIMITS_MEMORY false
#else
#define LIMITS_MEMORY true
#endif

static struct error *set_limits(uint64_t memory)
{
	if (!lower(RLIMIT_CORE, 0) || !lower(RLIMIT_STACK, STACK_MAX) ||
	    (LIMITS_MEMORY &&
	     (!lower(RLIMIT_DATA, memory) || !lower(RLIMIT_AS, memory + MAPPED_MAX))))
		return error_errno(errno, "cannot set the limits of the trace's reader");
	return NULL;
}

struct error *view_rights_give_up(uint64_t memory)
{
	struct error *error = set_limits(memory);

	if (!error && prctl(PR_SET_DUMPABLE, 0))
		error = error_errno(errno, "cannot hide the memory of the trace's reader");
	if (!error)
		error = drop_capabilities();
	return error ? error : filter_calls();
}
