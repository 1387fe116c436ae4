/*
 * sys.h - raw system calls, and instructions that C can't express.
 *
 * No errno: a call returns the kernel's own result, negative on failure.
 */
#ifndef DYNTRACE_SYS_H
#define DYNTRACE_SYS_H

#define SYS_READ 0
#define SYS_WRITE 1
#define SYS_CLOSE 3
#define SYS_FSTAT 5
#define SYS_POLL 7
#define SYS_RT_SIGPROCMASK 14
#define SYS_RT_SIGRETURN 15
#define SYS_ACCESS 21
#define SYS_SCHED_YIELD 24
#define SYS_GETPID 39
#define SYS_SOCKET 41
#define SYS_CONNECT 42
#define SYS_SENDTO 44
#define SYS_RECVFROM 45
#define SYS_GETSOCKOPT 55
#define SYS_CLONE 56
#define SYS_VFORK 58
#define SYS_GETEUID 107
#define SYS_RT_SIGPENDING 127
#define SYS_RT_SIGTIMEDWAIT 128
#define SYS_SIGALTSTACK 131
#define SYS_PRCTL 157
#define SYS_ARCH_PRCTL 158
#define SYS_GETTID 186
#define SYS_TKILL 200
#define SYS_FUTEX 202
#define SYS_CLOCK_GETTIME 228
#define SYS_OPENAT 257
#define SYS_PROCESS_VM_READV 310
#define SYS_SECCOMP 317
#define SYS_PWRITEV2 328
#define SYS_CLONE3 435

#ifndef __ASSEMBLER__

#include <stdint.h>

#define SYS_ESRCH 3
#define SYS_O_CLOEXEC 02000000
#define SYS_AT_FDCWD ((uint64_t)-100)
#define SYS_FUTEX_WAIT 0
#define SYS_FUTEX_WAKE 1
#define SYS_PR_GET_NAME 16

#define SYS_SS_ONSTACK 1u
#define SYS_SS_DISABLE 2u
#define SYS_SS_AUTODISARM 0x80000000u

/* The kernel's stack_t. */
struct sys_altstack {
	uint64_t start;
	uint32_t flags, pad;
	uint64_t size;
};

struct sys_iovec {
	uint64_t base;
	uint64_t length;
};

static inline int64_t sys_call6(int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	int64_t result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline int64_t sys_call3(int64_t number, uint64_t a, uint64_t b, uint64_t c)
{
	int64_t result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static inline uint32_t sys_getpid(void)
{
	return (uint32_t)sys_call3(SYS_GETPID, 0, 0, 0);
}

static inline uint32_t sys_gettid(void)
{
	return (uint32_t)sys_call3(SYS_GETTID, 0, 0, 0);
}

/* tkill and not tgkill: a vfork child has slots in its parent's table and another thread group. */
static inline int sys_thread_is_dead(uint32_t tid)
{
	return sys_call3(SYS_TKILL, tid, 0, 0) == -SYS_ESRCH;
}

static inline void sys_futex_wake(uint32_t *word)
{
	sys_call6(SYS_FUTEX, (uint64_t)word, SYS_FUTEX_WAKE, 1, 0, 0, 0);
}

/* Sleeps until a wake-up, a signal or the timeout; not at all if the word has another value. */
static inline void sys_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	uint64_t timeout[2] = { ns / 1000000000u, ns % 1000000000u };

	sys_call6(SYS_FUTEX, (uint64_t)word, SYS_FUTEX_WAIT, value, (uint64_t)timeout, 0, 0);
}

static inline uint64_t sys_clock_ns(uint64_t clock)
{
	uint64_t time[2] = { 0, 0 };

	sys_call3(SYS_CLOCK_GETTIME, clock, (uint64_t)time, 0);
	return time[0] * 1000000000u + time[1];
}

/* CLOCK_MONOTONIC. */
static inline uint64_t sys_now_ns(void)
{
	return sys_clock_ns(1);
}

/* The processor time of all threads of a process, in ns; 0: unknown. */
static inline uint64_t sys_process_time(uint32_t pid)
{
	return sys_clock_ns((uint64_t)(int64_t)(int32_t)(~pid << 3 | 2)); /* CPUCLOCK_SCHED */
}

/* Reads this process's own memory, without faulting. Gives the number of bytes, or negative. */
/* process_vm_readv or process_vm_writev of this process. When its first thread has ended, the
 * kernel finds the memory under the other threads' ids alone. */
static inline int64_t sys_copy_own(int64_t number, uint32_t pid, const struct sys_iovec *local,
				   uint64_t locals, const struct sys_iovec *remote,
				   uint64_t remotes)
{
	int64_t done = sys_call6(number, pid, (uint64_t)local, locals, (uint64_t)remote, remotes,
				 0);

	if (done != -SYS_ESRCH)
		return done;
	return sys_call6(number, sys_gettid(), (uint64_t)local, locals, (uint64_t)remote, remotes,
			 0);
}

static inline int64_t sys_read_self(uint64_t from, void *to, uint64_t length)
{
	struct sys_iovec local = { (uint64_t)to, length };
	struct sys_iovec remote = { from, length };

	return sys_copy_own(SYS_PROCESS_VM_READV, sys_getpid(), &local, 1, &remote, 1);
}

static inline uint64_t sys_fs_base(void)
{
	uint64_t base;

	__asm__ volatile("rdfsbase %0" : "=r"(base));
	return base;
}

static inline uint64_t sys_gs_base(void)
{
	uint64_t base;

	__asm__ volatile("rdgsbase %0" : "=r"(base));
	return base;
}

/* The 32-bit word at that offset from the FS base. */
static inline uint32_t sys_fs_word(uint64_t offset)
{
	uint32_t word;

	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"(offset));
	return word;
}

static inline uint64_t sys_fs_long(uint64_t offset)
{
	return sys_fs_word(offset) | (uint64_t)sys_fs_word(offset + 4) << 32;
}

static inline uint64_t sys_clock(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* Exchanges a word that only this thread writes, its signal handlers included: one instruction, so
 * it needs no lock. False: the word has another value. */
static inline int sys_exchange(uint64_t *word, uint64_t was, uint64_t now)
{
	uint8_t done;

	__asm__ volatile("cmpxchgq %3, %1\n\tsete %0"
			 : "=q"(done), "+m"(*word), "+a"(was)
			 : "r"(now)
			 : "memory", "cc");
	return done;
}

/* Adds 1 likewise. */
static inline void sys_increment(uint32_t *word)
{
	__asm__ volatile("incl %0" : "+m"(*word) : : "memory", "cc");
}

static inline void sys_pause(void)
{
	__asm__ volatile("pause");
}

#endif
#endif
