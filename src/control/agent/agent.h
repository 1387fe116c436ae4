/*
 * agent.h - put the agent into a process, give it code memory, take all of it out again.
 *
 * A struct agent owns the code and pool memfds of one target (open and mapped here; no descriptor
 * stays in the target), and knows where they and the private state are mapped in the target. See
 * src/shared/layout.h.
 */
#ifndef DYNTRACE_AGENT_H
#define DYNTRACE_AGENT_H

#include "shared/layout.h"
#include "control/stop/stop.h"

/* The control page, the agent and the seed of windows; after them the state. */
#define AGENT_BASE_SIZE (DT_WINDOWS_OFFSET + DT_PAGE)
#define AGENT_STATE_SIZE DT_ROUND_UP(sizeof(struct dt_state), DT_PAGE)
#define AGENT_WHOLE_SIZE (AGENT_BASE_SIZE + AGENT_STATE_SIZE)

/* A window of code memory to map. */
struct code_window {
	taddr at;
	uint32_t pages;
	uint32_t offset; /* in the code memfd; 0: not mapped, as `at` wasn't free */
};

struct agent_options {
	/* bytes for events, DT_POOL_MIN..DT_POOL_MAX; the tables come on top */
	uint64_t pool_size;
	/* where the agent shall be in the target if that is free (agent_find_place); 0: anywhere */
	taddr base_at;
	/* where the pool shall be in the target if that is free (huge_pool.h); 0: anywhere */
	taddr pool_at;
	/* dt_control.fronts, which the caller is going to map: before it is, a controller that
	 * takes over must find it; 0: none */
	taddr fronts_at;
	taddr returns_at; /* likewise, of dt_control.returns */
	const struct ahead *next; /* what the caller asks for next (ahead.h); NULL: unknown */
	bool fill_later; /* the caller is going to call agent_fill_text */
	uint32_t flags; /* of dt_control */
	const char *agent_path; /* libdyntrace-agent.so */
	struct code_window *windows; /* windows to map with the agent; `offset` gets filled in */
	size_t window_count;
	/* from agent_prepare; NULL: read the file while the thread is held */
	const struct agent_elf *image;
	/* agent whose pool this one uses too (pool_size is ignored), and which must live longer;
	 * NULL: none */
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
	bool pool_shared; /* the pool belongs to another agent */
	bool tallies_filled; /* agent_fill_tallies */
	bool has_beacon; /* `control` is at a place of beacon_reserve */
	uint32_t process; /* dt_state.process of the target; 0: unknown (takeover) */
	taddr control_at; /* addresses in the target */
	taddr agent_at;
	taddr pool_at;
	taddr state_at;
	taddr slow_at; /* dt_slow */
	taddr gather_at; /* dt_gather */
	void *shares[DT_SHARES_MAX]; /* our mappings of dt_control.shares; NULL: not mapped */
	int share_fds[DT_SHARES_MAX]; /* their descriptors, + 1; 0: none */
	taddr trap_at, trap_return_at; /* dt_trap, dt_trap_return */
	taddr call_op_at, fault_at; /* dt_call_op, dt_fault */
	taddr line_hit_at; /* dt_line_hit */
	/* time of injection, as thread_stat.start_time: not later than that of any later child */
	uint64_t since;
	uint64_t window_next; /* first byte of the code memfd not given to a window yet */
};

/* Does the work that needs no held thread: reads the agent's file, and finds the gadgets for remote
 * calls. */
struct agent_elf;
struct error *agent_prepare(struct proc *proc, const char *agent_path,
			    struct agent_elf **ret_image);
void agent_prepare_end(struct agent_elf *image);

/* Bytes of the pool's mapping for a buffer of that size (0: the default). */
uint64_t agent_pool_size(uint64_t buffer_size);

/* A place for the agent, 0 if none is found. */
taddr agent_find_place(const struct maps *maps);

/* Maps everything, using one held thread (stop_one or stop_adopt), and touches nothing else. Fills
 * in dt_control and dt_pool. On failure nothing stays behind. */
struct error *agent_inject(struct stop *stop, struct proc *proc,
			   const struct agent_options *options, struct agent **ret_agent);

/* Copies the agent's code (options.fill_later), before anything leads to it. */
void agent_fill_text(struct agent *agent, const struct agent_elf *image);

/* Allocates the pool's memory from here, so that it counts as ours (H17) and a fault in the target
 * can't fail. Takes milliseconds: don't call it while a thread is held. */
struct error *agent_fill_pool(struct agent *agent);
/* Likewise for the tallies that more than DT_EVENTS_FIRST kinds of events need. */
struct error *agent_fill_tallies(struct agent *agent, uint32_t count);

/* Maps `pages` more pages of the code memfd, r-x, at exactly `at` in the target
 * (MAP_FIXED_NOREPLACE), and notes the window in dt_control. *ret_offset: the window's offset in
 * the code memfd. */
struct error *agent_map_window(struct stop *stop, struct agent *agent, taddr at, uint32_t pages,
			       uint32_t *ret_offset);

/* Maps memory that the target, its forked children and the controller can write. Lives as long as
 * the agent, as does its descriptor (`ret_fd` may be NULL). */
struct error *agent_share(struct stop *stop, struct agent *agent, const char *name, uint64_t size,
			  void **ret_here, taddr *ret_there, int *ret_fd);

/* Maps into a forked child, which `stop` holds, the windows and shared memory that the target got
 * after the fork. */
struct error *agent_complete(struct stop *stop, const struct agent *agent);

/* Lets no thread of the process make plain loads any more (X7), until the agent looks at it again.
 * The reason must be there before. */
struct error *agent_forbid_loads(const struct agent *agent, struct proc *proc);

/* Unmaps all that agent_* mapped in the process that `stop` holds: the target or a forked child of
 * it; before that `more`, if not NULL. All sites must have been restored there before, and no
 * thread may be in a trampoline. */
struct remote_map_list;
struct error *agent_remove(struct stop *stop, struct agent *agent,
			   const struct remote_map_list *more);

/* Finds other processes that map this agent's code memfd (forked children), by device and inode in
 * /proc/N/maps (H12). */
struct error *holders_find(const struct agent *agent, struct tids *ret_pids);

/* The current time in the unit of agent.since. */
uint64_t holders_now(void);
/* Finds only processes started since the injection: leaves out older ones that share the target's
 * memory. Much cheaper on a machine with many processes. */
struct error *holders_find_forked(const struct agent *agent, struct tids *ret_pids);

/* A mapping of an agent's code, as /proc/PID/maps shows it. */
#define HOLDERS_CODE "/memfd:dyntrace-code"
/* Do both map the code of one agent? Then one has forked the other, or they have a common
 * ancestor. Needs no struct agent. */
struct error *holders_share_code(const struct proc *one, const struct proc *other,
				 bool *ret_shared);

/* Frees the controller's resources. Doesn't touch the target. */
void agent_free(struct agent *agent);

#endif
