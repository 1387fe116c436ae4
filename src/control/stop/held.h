/*
 * held.h - threads in our hand. Private to inject/.
 *
 * (S1) A thread in state HELD_STOPPED is in a PTRACE_EVENT_STOP (by PTRACE_INTERRUPT, or a
 *      group-stop): registers set there are honoured and interrupted system calls are restarted
 *      (H15).
 * (S2) Between calls of the public functions no thread is in the middle of a remote call: its
 *      registers, signal mask and stack are its own.
 * (S3) `regs` is what the kernel holds for the thread, whenever it is HELD_STOPPED and S2 holds.
 */
#ifndef DYNTRACE_HELD_H
#define DYNTRACE_HELD_H

#include <sys/user.h>

#include "stop.h"

enum held_state {
	HELD_SEIZED, /* ours, but still running */
	HELD_STOPPED,
	HELD_GONE,
};

struct held {
	pid_t tid;
	enum held_state state;
	bool sharer; /* of another process that shares the memory (H13) */
	bool adopted; /* was in our ptrace stop before, and stays in it */
	bool stray; /* a forked child that ptrace gave us: let go at once */
	bool ended; /* a leader, with others still alive: it won't stop */
	bool rewound; /* regs lead back to a system call that had come back with EINTR */
	struct user_regs_struct regs;
};

struct remote;

struct stop {
	struct proc *proc;
	VEC(struct held) threads; /* HELD_GONE ones are dropped before the caller sees it */
	int task_fd; /* /proc/PID/task; -1: one thread only */
	bool executed; /* the process began another program meanwhile */
	struct remote *remote; /* the thread that is borrowed just now; NULL: none */
	uint64_t since_us;
	long alone_number; /* sharers.c */
	uint64_t looked_us; /* held.c: when ends were last looked for, or a thread was to be seized */
	size_t alone_threads;
};

uint64_t held_now_us(void);
/* Sleeps a little between two looks; `round` is how many there were. */
void held_nap(unsigned round);

/* Sleeps until that thread has something to report (which it leaves in place), or a few ms. */
void held_block(pid_t tid, unsigned round);

struct error *held_gone(const struct stop *stop);

/* Seizes and interrupts one thread and notes it. False: it is gone already. */
struct error *held_seize(struct stop *stop, pid_t tid, bool sharer, bool *ret_ours);
/* Looks once for what the thread did, and drives it towards HELD_STOPPED. */
struct error *held_look(struct stop *stop, size_t index);
/* Waits until it is stopped, or gone, or the time (held_now_us) is over: then it stays HELD_SEIZED. */
struct error *held_wait(struct stop *stop, size_t index, uint64_t deadline_us);
/* Of one that doesn't report: is it still ours? An own child's end of that kind shows in no other
 * way (waitpid goes on giving nothing of it). If not, it is HELD_GONE, and the process has begun
 * another program. */
void held_check_replaced(struct stop *stop, struct held *held);
/* Lets go of it, with what makes the stop invisible; notes it as HELD_GONE. */
void held_release(struct stop *stop, size_t index);
/* Forgets the HELD_GONE ones. */
void held_compact(struct stop *stop);
/* Writes `regs` to the thread. */
struct error *held_set_regs(struct stop *stop, size_t index, const struct user_regs_struct *regs);

#endif
