/*
 * confine.c - the rights that a worker gives up.
 *
 * A worker parses foreign data: programs, debug information, buffers. A mistake there gives an
 * attacker the worker's rights, which are those of the target's user. But the worker of a target of
 * root (in a container, say, where root isn't trusted) is root. So all workers keep only the rights
 * that tracing needs. Two can't be taken away: ptrace itself, and opening existing files for
 * reading and writing, which is how /proc/PID/mem is written.
 *
 * A keeper opens the files of traces and logs, and hands over descriptors.
 */
#include "confine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Refused with EPERM: a worker must not be killed in the middle of a stop. */
static const int refused[] = {
	/* programs, namespaces, other rights */
	SYS_execve,
	SYS_execveat,
	SYS_fork,
	SYS_vfork,
	SYS_unshare,
	SYS_setns,
	SYS_chroot,
	SYS_pivot_root,
	SYS_setuid,
	SYS_setgid,
	SYS_setreuid,
	SYS_setregid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_setfsuid,
	SYS_setfsgid,
	SYS_setgroups,
	SYS_capset,
	SYS_personality,
	/* the network, and ways around this filter */
	SYS_socket,
	SYS_socketpair,
	SYS_connect,
	SYS_bind,
	SYS_listen,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	/* files, by name */
	SYS_creat,
	SYS_openat2,
	SYS_open_by_handle_at,
	SYS_mkdir,
	SYS_mkdirat,
	SYS_rmdir,
	SYS_unlink,
	SYS_rename,
	SYS_renameat2,
	SYS_link,
	SYS_linkat,
	SYS_symlink,
	SYS_symlinkat,
	SYS_mknod,
	SYS_mknodat,
	SYS_chmod,
	SYS_fchmodat,
	SYS_chown,
	SYS_lchown,
	SYS_fchownat,
	SYS_truncate,
	SYS_setxattr,
	SYS_lsetxattr,
	SYS_removexattr,
	SYS_lremovexattr,
	SYS_utime,
	SYS_utimes,
	SYS_utimensat,
	SYS_futimesat,
	/* the system */
	SYS_mount,
	SYS_umount2,
	SYS_fsopen,
	SYS_fsconfig,
	SYS_fsmount,
	SYS_move_mount,
	SYS_open_tree,
	SYS_swapon,
	SYS_swapoff,
	SYS_reboot,
	SYS_kexec_load,
	SYS_kexec_file_load,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_acct,
	SYS_quotactl,
	SYS_syslog,
	SYS_iopl,
	SYS_ioperm,
	SYS_sethostname,
	SYS_setdomainname,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_vhangup,
	SYS_fanotify_init,
};
#define REFUSED_COUNT (sizeof(refused) / sizeof(refused[0]))

/* Refused when leftovers were dealt with: the trace of a dyntrace that was killed may need new
 * files, which are made as trace_dir.c makes them. */
static const int refused_later[] = { SYS_unlinkat, SYS_renameat };
#define REFUSED_LATER_COUNT (sizeof(refused_later) / sizeof(refused_later[0]))

/* Flags of open that make a file, empty it, or write behind its end. */
static const uint32_t creating[] = { O_CREAT, O_TRUNC, O_APPEND, O_TMPFILE & ~O_DIRECTORY };
#define CREATING_COUNT (sizeof(creating) / sizeof(creating[0]))

/* Refuses the call if its argument `flags`, counted from 0, has one of `creating`. */
static bool refuse_creating(scmp_filter_ctx filter, int call, unsigned flags)
{
	bool failed = false;

	for (size_t i = 0; i < CREATING_COUNT && !failed; i++)
		failed = seccomp_rule_add(
			filter, SCMP_ACT_ERRNO(EPERM), call, 1,
			SCMP_CMP(flags, SCMP_CMP_MASKED_EQ, creating[i], creating[i]));
	return !failed;
}

scmp_filter_ctx confine_make_filter(enum confine_stage stage)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	/* int 0x80 and x32: the worker itself never makes such a system call. */
	bool done = filter &&
		    !seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) &&
		    /* all threads, should a library have made some */
		    !seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

	for (size_t i = 0; i < REFUSED_COUNT && done; i++)
		done = !seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
	for (size_t i = 0; i < REFUSED_LATER_COUNT && done && stage == CONFINE_WHOLE; i++)
		done = !seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused_later[i], 0);
	if (done && refuse_creating(filter, SYS_open, 1) &&
	    (stage == CONFINE_FIRST || refuse_creating(filter, SYS_openat, 2)))
		return filter;
	seccomp_release(filter);
	return NULL;
}

/* seccomp_load sets no_new_privs, too. */
static struct error *filter_calls(enum confine_stage stage)
{
	scmp_filter_ctx filter = confine_make_filter(stage);
	int failed = filter ? -seccomp_load(filter) : ENOMEM;

	seccomp_release(filter);
	return failed ? error_errno(failed, "cannot give up system calls") : NULL;
}

/* Keeps, of root's: reading its targets' files and memory, their limits, and the stop's
 * priority. */
static struct error *drop_capabilities(void)
{
	static const unsigned needed[] = { CAP_SYS_PTRACE,	  CAP_SYS_NICE,
					   CAP_SYS_RESOURCE,	  CAP_DAC_READ_SEARCH,
					   CAP_DAC_OVERRIDE,	  CAP_KILL,
					   CAP_CHECKPOINT_RESTORE };
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct now[2] = { 0 }, wanted[2] = { 0 };

	if (syscall(SYS_capget, &header, now))
		return error_errno(errno, "cannot give up capabilities");
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		wanted[needed[i] / 32].permitted |=
			now[needed[i] / 32].permitted & (1u << (needed[i] % 32));
	assert(!(wanted[0].permitted & ~now[0].permitted) &&
	       !(wanted[1].permitted & ~now[1].permitted));
	for (int i = 0; i < 2; i++)
		wanted[i].effective = wanted[i].permitted;
	if (!memcmp(now, wanted, sizeof(now)))
		return NULL; /* the first stage has done that, and has given up capset */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) ||
	    syscall(SYS_capset, &header, wanted))
		return error_errno(errno, "cannot give up capabilities");
	return NULL;
}

struct error *confine_worker(enum confine_stage stage)
{
	struct error *error = drop_capabilities();

	return error ? error : filter_calls(stage);
}
