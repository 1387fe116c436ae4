/*
 * confine.c - what a worker gives up.
 *
 * A worker parses what others wrote: programs, debug information, buffers. Whoever finds a mistake
 * in that has the worker's rights, which are the target's user's own; but a target that is root's
 * (in a container, say, where root isn't trusted) has a worker that is root. So all workers are
 * left with what tracing needs. What can't be taken away is ptrace itself, and opening a file that
 * is there to read and write it, which is how /proc/PID/mem is written.
 *
 * Files of traces and logs are a keeper's, which hands over descriptors.
 */
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Refused with EPERM: a parser that goes astray must not be killed in the middle of a stop. */
static const uint32_t refused[] = {
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
	SYS_unlinkat,
	SYS_rename,
	SYS_renameat,
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
#define CREATES ((uint32_t)(O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY)))

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define SKIP_UNLESS(number, count) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, count)

/* What of this isn't x86-64's own (int 0x80, x32) is no system call of ours. */
static const struct sock_filter head[] = {
	LOAD(arch),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
	RETURN(SECCOMP_RET_KILL_PROCESS),
	LOAD(nr),
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1),
	RETURN(SECCOMP_RET_KILL_PROCESS),
	/* No file is made, emptied or written behind its end. */
	SKIP_UNLESS(SYS_openat, 4),
	LOAD(args[2]),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CREATES, 0, 1),
	RETURN(SECCOMP_RET_ERRNO | EPERM),
	RETURN(SECCOMP_RET_ALLOW),
	SKIP_UNLESS(SYS_open, 4),
	LOAD(args[1]),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CREATES, 0, 1),
	RETURN(SECCOMP_RET_ERRNO | EPERM),
	RETURN(SECCOMP_RET_ALLOW),
};
#define HEAD_COUNT (sizeof(head) / sizeof(head[0]))

static struct error *filter_calls(void)
{
	struct sock_filter code[HEAD_COUNT + 2 * REFUSED_COUNT + 1];
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
	size_t at = 0;

	for (size_t i = 0; i < HEAD_COUNT; i++)
		code[at++] = head[i];
	for (size_t i = 0; i < REFUSED_COUNT; i++) {
		code[at++] = (struct sock_filter)SKIP_UNLESS(refused[i], 1);
		code[at++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
	}
	code[at] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		return error_errno(errno, "cannot give up system calls");
	return NULL;
}

/* Of what root has: reading its targets' files and memory, their limits, and the stop's priority. */
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
	for (int i = 0; i < 2; i++)
		wanted[i].effective = wanted[i].permitted;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) ||
	    syscall(SYS_capset, &header, wanted))
		return error_errno(errno, "cannot give up capabilities");
	return NULL;
}

struct error *confine_worker(void)
{
	struct error *error = drop_capabilities();

	return error ? error : filter_calls();
}
