/*
 * held.h - the threads of a struct stop. For stop/ and remote/ only.
 *
 * (S1) A thread in state HELD_STOPPED is in a PTRACE_EVENT_STOP (by PTRACE_INTERRUPT, or a
 *      group-stop): registers set there are honoured and interrupted system calls are restarted
 *      (H15).
 * (S2) While stop->remote is NULL no thread is in the middle of a remote call: its registers,
 *      signal mask and stack are its own.
 * (S3) `regs` are the registers that the kernel holds for the thread, whenever it is HELD_STOPPED
 *      and S2 holds.
 * (S4) A stop of all threads holds as many as the kernel counts: /proc/PID/task may leave threads
 *      out.
 * (S5) No thread is left to restart_syscall where a filter of its own forbids that call (H26): a
 *      sleep that the stop interrupted begins afresh.
 * (S9) The report of a signal stays in place until ptrace passes the signal on. The kernel drops a
 *      signal whose report was taken, if the controller is killed then (H14): a trap's SIGTRAP,
 *      say, and the thread would go on behind the instruction that it never executed.
 * (S13) The caller's time counts for a thread that is ready to run only as far as the thread has
 *      run (starved.h), and no other thread is held for longer than the caller's time.
 * (S17) Of the threads that sleep, the first that is asked is the first that is let go, and the
 *      leader the last: none stands still both while all others are asked and while they are let
 *      go.
 * (S19) A thread that was asked in its stop, and had no filter, has none when all threads are held:
 *      a thread that stands still gets one from nobody but another thread of its process, which
 *      gives it to all of them. So one of them, asked again at the end, vouches for the others.
 *      How its system calls are dispatched each thread decides for itself.
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
	bool sharer; /* belongs to another process that shares the memory (H13) */
	bool asked; /* to stop */
	uint64_t since_us; /* when it was asked, or taken over */
	bool computes; /* let go first (S16) */
	bool adopted; /* was in our ptrace stop before, and stays in it */
	bool stray; /* a forked child that ptrace attached us to: let go at once */
	bool ended; /* a leader that has ended while others live: it never stops */
	bool plain; /* no filter, and no dispatch of its system calls (S19) */
	bool rewound; /* regs lead back to a system call that had returned EINTR */
	bool is_timed; /* ran_ns is known */
	uint64_t ran_ns; /* starved.c: processor time when the thread was late first */
	struct user_regs_struct regs;
};

struct remote;

struct stop {
	struct proc *proc;
	/* without HELD_GONE ones by the time the caller sees it, and the leader first */
	VEC(struct held) threads;
	int task_fd; /* /proc/PID/task; -1: one thread only */
	bool executed; /* the process began another program meanwhile */
	bool quits; /* stop_all_or_quit, stop_one_or_quit */
	bool asks; /* each thread in its stop: is it plain? */
	bool raised; /* the caller's priority (realtime.h) */
	bool starved; /* stop_one.c: a thread that was tried has no processor */
	struct remote *remote; /* remote call in progress; NULL: none */
	uint64_t looked_us; /* held_seize.c: time of the last look for ends, or of the last seize */
	uint64_t longest_us; /* for which a thread was held that is let go */
	long alone_number; /* sharers.c */
	struct tids alone_threads;
	struct tids computing; /* computing.c */
	bool spares; /* threads that compute aren't seized yet (S16) */
};

uint64_t held_now_us(void);
/* Options of ptrace with which the stop seizes threads. */
unsigned held_options(const struct stop *stop);
/* Sleeps a little between two looks; longer as `round`, the number of looks, grows. */
void held_nap(unsigned round);

/* Sleeps until that thread has a report (which stays in place), at most a few ms. */
void held_block(pid_t tid, unsigned round);

/* The error for a process that has ended or begun another program. */
struct error *held_gone(const struct stop *stop);

/* Is one of these signals (bit n - 1 is signal n) on its way to the thread, which is in a ptrace
 * stop? Runs in a signal handler, too. */
bool held_has_signal(pid_t tid, uint64_t among);

/* The thread in the list; NULL: it isn't there. */
struct held *held_find(struct stop *stop, pid_t tid);
/* Adds a thread that is ours to the list, if it isn't there. Without memory it is let go in its
 * stop (H31). */
struct error *held_note(struct stop *stop, struct held held);
/* Notes the end of a thread, which was seen with that status. */
void held_note_end(struct stop *stop, struct held *held, int status);

/* Seizes one thread, which runs on, and notes it. *ret_ours stays false if it is gone already. */
struct error *held_seize(struct stop *stop, pid_t tid, bool sharer, bool *ret_ours);
/* Asks all seized threads to stop, in the order in which stop_let_go lets them go (S17). */
void held_ask(struct stop *stop);
/* As waitpid with WNOHANG, but leaves the report of a stop in place (S9), until the thread goes
 * on. */
pid_t held_peek(pid_t tid, int *ret_status);
/* Takes one report of the thread, if it has any, and drives it towards HELD_STOPPED. */
struct error *held_look(struct stop *stop, size_t index);
/* Waits until the thread is stopped or gone. After the deadline (held_now_us) it stays
 * HELD_SEIZED. */
struct error *held_wait(struct stop *stop, size_t index, uint64_t deadline_us);
/* Checks whether a thread that doesn't report is still ours. The end of our own child by an exec
 * shows in no other way (waitpid goes on reporting nothing). If it isn't ours, it becomes
 * HELD_GONE, and the process has begun another program. */
void held_check_replaced(struct stop *stop, struct held *held);
/* Lets the thread go at once, if that needs no more than to say so. Otherwise it stays as it is. */
void held_let_run(struct stop *stop, size_t index);
/* Lets the thread go so that the stop is invisible; it becomes HELD_GONE. */
void held_release(struct stop *stop, size_t index);
/* Removes HELD_GONE threads from the list. */
void held_compact(struct stop *stop);
/* Writes `regs` to the thread. */
struct error *held_set_regs(struct stop *stop, size_t index, const struct user_regs_struct *regs);

#endif
