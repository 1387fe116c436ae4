/*
 * agent.h - put the agent into a process, give it code memory, take all of it out again.
 *
 * Owns, per target: the code and pool memfds (held and mapped here, no descriptor stays in the
 * target), where they and the private state are mapped there. See src/shared/layout.h.
 */
#ifndef DYNTRACE_AGENT_H
#define DYNTRACE_AGENT_H

#include "shared/layout.h"
#include "control/stop/stop.h"

/* The control page, the agent and the seed of windows; behind them the state. */
#define AGENT_BASE_SIZE (DT_WINDOWS_OFFSET + DT_PAGE)
#define AGENT_STATE_SIZE DT_ROUND_UP(sizeof(struct dt_state), DT_PAGE)
#define AGENT_WHOLE_SIZE (AGENT_BASE_SIZE + AGENT_STATE_SIZE)

/* A window that is wanted, and where in the code memfd it is: 0: it isn't mapped, its place wasn't
 * free. */
struct code_window {
	taddr at;
	uint32_t pages;
	uint32_t offset;
};

struct agent_options {
	/* memory for events, DT_POOL_MIN..DT_POOL_MAX; the tables come on top of it */
	uint64_t pool_size;
	uint32_t flags; /* DT_FOLLOW_FORK, DT_NO_SYSCALLS */
	const char *agent_path; /* libdyntrace-agent.so */
	struct code_window *windows; /* to be mapped with it; each tells whether it is */
	size_t window_count;
	/* of agent_prepare; NULL: it is read while the thread is held */
	const struct agent_elf *image;
	/* NULL, or whose pool this one gets too: it must live longer; pool_size is ignored */
	const struct agent *share;
};

struct agent {
	struct proc *proc; /* borrowed */
	int code_fd; /* the controller's descriptors of the memfds */
	int pool_fd;
	uint64_t code_device, code_inode; /* as /proc/PID/maps shows them */
	uint64_t pool_device, pool_inode;
	struct dt_control *control; /* the code memfd, DT_CODE_SIZE, mapped rw here */
	struct dt_pool *pool; /* the pool memfd, mapped rw here */
	uint64_t pool_size; /* of the whole mapping */
	bool pool_shared; /* it belongs to another agent */
	bool tallies_filled; /* agent_fill_tallies */
	taddr control_at; /* where the target has them */
	taddr agent_at;
	taddr pool_at;
	taddr state_at;
	taddr slow_at; /* dt_slow */
	taddr gather_at; /* dt_gather */
	void *shares[DT_SHARES_MAX]; /* what dt_control.shares are here; NULL: not mapped */
	int share_fds[DT_SHARES_MAX]; /* ... and their descriptors, + 1; 0: none */
	taddr trap_at, trap_return_at; /* dt_trap, dt_trap_return */
	taddr call_op_at, fault_at; /* dt_call_op, dt_fault */
	/* when it was made, as start times of processes are told: not later than its children's */
	uint64_t since;
	uint64_t window_next; /* first byte of the code memfd not given to a window yet */
};

/* What can be done before anything is held: reads the agent's file, and looks for what remote calls
 * need. */
struct agent_elf;
struct error *agent_prepare(struct proc *proc, const char *agent_path, struct agent_elf **ret_image);
void agent_prepare_end(struct agent_elf *image);

/* Maps everything, using one held thread (stop_one or stop_adopt); nothing else is touched. On
 * failure nothing stays behind. Fills in dt_control and dt_pool. */
struct error *agent_inject(struct stop *stop, struct proc *proc,
			   const struct agent_options *options, struct agent **ret_agent);

/* Gives the pool its memory, from here, so that it counts as ours (H17) and a fault in the target
 * can't fail. Takes milliseconds: not while a thread is held. */
struct error *agent_fill_pool(struct agent *agent);
/* Likewise for what more than DT_EVENTS_FIRST kinds of events need. */
struct error *agent_fill_tallies(struct agent *agent, uint32_t count);

/* Maps `pages` more pages of the code memfd, r-x, at exactly `at` in the target
 * (MAP_FIXED_NOREPLACE), and notes the window in dt_control. *ret_offset: where that is in the code
 * memfd. */
struct error *agent_map_window(struct stop *stop, struct agent *agent, taddr at, uint32_t pages,
			    uint32_t *ret_offset);

/* Memory that the target and its forked children can write, and we. It goes with the agent. */
struct error *agent_share(struct stop *stop, struct agent *agent, const char *name, uint64_t size,
			   void **ret_here, taddr *ret_there);

/* Maps into a forked child, which `stop` holds, what the target has got since: windows and shared
 * memory. */
struct error *agent_complete(struct stop *stop, const struct agent *agent);

/* Unmaps all that inject_* mapped in the process that `stop` holds, which is the target or a forked
 * child of it. All sites must have been restored there before, and no thread may be in a
 * trampoline. */
struct error *agent_remove(struct stop *stop, struct agent *agent);

/* Other processes that map this agent's code memfd (forked children), by device and inode in
 * /proc/N/maps (H12). */
struct error *holders_find(const struct agent *agent, struct tids *ret_pids);

/* The time, as agent.since has it. */
uint64_t holders_now(void);
/* Of those only who was begun since: without who shares the target's memory. Much cheaper where
 * there are many processes. */
struct error *holders_find_forked(const struct agent *agent, struct tids *ret_pids);

/* Closes what the controller holds. The target is not touched. */
void agent_free(struct agent *agent);

#endif
