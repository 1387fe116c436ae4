/*
 * layout.h - the memory that the controller and the target share.
 *
 * Freestanding; included by the agent, the controller and (for the offsets) by the generator of
 * trampolines. Every change raises DT_LAYOUT_VERSION: a controller leaves a target alone whose
 * agent has another version.
 *
 * Four mappings in the target:
 *
 *   code     memfd, sealed against growing, shrinking and future writable
 *            mappings (F_SEAL_FUTURE_WRITE). The controller alone can write it.
 *              [0, DT_CONTROL_SIZE)  struct dt_control   mapped r--
 *              the agent's image                         mapped r-x / r--
 *              trampolines, in windows near the modules  mapped r-x
 *   pool     memfd, sealed against growing and shrinking, mapped rw- by both and
 *            by forked children: struct dt_pool, thread records, chunk words,
 *            chunk descriptors, then the chunks. The controller treats all of it
 *            as hostile input.
 *   state    private anonymous memory, MADV_WIPEONFORK: struct dt_state, the table
 *            of thread slots, the stacks of the slow paths. A forked child finds it
 *            zeroed, and so starts with no slot and no chunk. One page of it is copied
 *            by fork: struct dt_inherited.
 *   returns  private anonymous memory that fork copies (struct dt_returns), mapped only while
 *            function exits are recorded: which call each return stub stands for. The stubs are a
 *            window of the code memfd within reach of it.
 *
 * The buffer's protocol (asserts, tests and comments cite B1 to B11):
 *
 * (B1) A chunk has one owner at a time. It changes hands only by compare-and-swap of its chunk
 *      word: FREE -> OWNED by a thread; OWNED -> PUBLISHED by its owner; OWNED -> CLOSING ->
 *      PUBLISHED by the thread that inherits a dead thread's slot; OWNED -> TAKEN by the controller
 *      once the owner is dead; PUBLISHED or TAKEN -> EMPTYING -> FREE by the controller (or see
 *      B9). EMPTYING says that the trace has the chunk's events and the chunk is being zeroed.
 *      Every step out of FREE, and to WIPING, raises the generation.
 * (B2) A hit reserves space by an unlocked cmpxchg of slot.reserve, which only the slot's own
 *      thread writes. The word holds the chunk's generation, so a nested signal handler that
 *      switched chunks makes the interrupted cmpxchg fail.
 * (B3) A hit loads slot.reserve before it reads the clock: an event behind another one in the chunk
 *      has no smaller clock value.
 * (B4) Chunks are zero beyond the reserved bytes. A header that is neither zero nor has
 *      DT_EVENT_PENDING is the last store of its event, which is complete. The first store of an
 *      event with a payload is its header with DT_EVENT_PENDING, so that its size is known even if
 *      the hit never completes it.
 * (B5) In the descriptor of a published chunk, begin <= clock of each event <= end; and end <=
 *      begin of the same thread's next chunk, unless the clock was set back between the two: then
 *      the reader starts a new stream.
 * (B6) Two neighbouring events of a chunk, and begin and the first event, are less than 2^39 cycles
 *      apart: 40 bits of clock in the header are enough.
 * (B7) Each hit adds exactly one to one of: events in a chunk, dt_thread.lost,
 *      dt_pool.lost_homeless. Each event of a chunk that a thread takes again by (B9) adds one to
 *      dt_pool.overwritten.
 * (B8) With DT_BLOCK a thread that finds no room waits, on its own stack and with its signals as
 *      they are, for at most dt_control.block_ms. After that, or if the controller is dead, the
 *      thread sets dt_pool.expired: no thread waits until the controller frees a chunk and clears
 *      it. So a stopped controller costs the target one wait, not one per hit.
 * (B9) With DT_OVERWRITE the controller frees nothing. A thread that wants a chunk takes the next
 *      chunk of the ring that is FREE, or PUBLISHED and complete: PUBLISHED -> WIPING, which raises
 *      the generation; it zeroes the chunk; -> OWNED. It passes over a chunk with a hole: the hit
 *      that left the hole may still write there. Each place of the ring goes to one thread per
 *      round, by an addition to the hint: a thread that is slow to take its chunk doesn't get
 *      one that another has just filled. A reader copies the chunk meanwhile and compares the
 *      word before and after.
 * (B10) An event of variable size reserves the most that it may need. When its fields are written,
 *      it gives the rest back by an unlocked cmpxchg of slot.reserve from the end of its room. If a
 *      signal's handler has recorded behind it meanwhile, the word is another, and the event keeps
 *      its room. The word behind its header says which (program.h), also while the event is
 *      pending. The rest was never written (B4).
 * (B11) Each published chunk adds one to dt_pool.wake. A thread that raises `wake` wakes a
 *      controller that sleeps if `wake` has reached wake_at, which is at most DT_WAKE_CHUNKS more
 *      than the controller has seen: so the controller reads several chunks at once, and few hits
 *      pay for waking it. What can't wait for more chunks adds DT_WAKE_CHUNKS: a question, and a
 *      thread that takes the last chunk or finds none. Where others keep nearly all of them, no
 *      more may be published.
 *
 * (N1) A thread that passes the place where the loader reports a new list of libraries to debuggers
 *      raises dt_pool.modules_asked: the new value is its ticket. With DT_WAIT_MODULES it waits
 *      until modules_answered has reached the ticket, for at most dt_control.modules_ms in which
 *      the controller doesn't use a processor. After that, or if the controller is dead, the thread
 *      sets modules_expired: no thread waits until the controller answers and clears it.
 */
#ifndef DYNTRACE_LAYOUT_H
#define DYNTRACE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DT_MAGIC 0x3165636172746e79ULL /* "yntrace1" */
#define DT_LAYOUT_VERSION 59
/* dt_version_N: a symbol of the agent, whose name tells the version it was built with. */
#define DT_VERSION_NAME_(version) dt_version_##version
#define DT_VERSION_NAME(version) DT_VERSION_NAME_(version)
#define DT_VERSION_SYMBOL DT_VERSION_NAME(DT_LAYOUT_VERSION)

/* ---- code memfd --------------------------------------------------------------------------- */

#define DT_CODE_SIZE (256ULL << 20) /* sparse: only written pages take memory */
#define DT_CONTROL_SIZE (16ULL << 20) /* sparse, too */
#define DT_AGENT_OFFSET DT_CONTROL_SIZE
#define DT_AGENT_SIZE (1ULL << 20)
#define DT_WINDOWS_OFFSET (DT_AGENT_OFFSET + DT_AGENT_SIZE)

#define DT_WINDOWS_MAX 256
#define DT_SITES_MAX 131072
#define DT_SITE_BYTES 32
#define DT_EVENTS_MAX 262144u
#define DT_EVENTS_FIRST 65536u /* events whose tallies have memory from the start */
#define DT_SIZE_VARIES 0xffffu
#define DT_OUTPUT_MAX 4096u
#define DT_UNWINDERS_MAX 4u
#define DT_SEMAPHORES_MAX 4096u
#define DT_CALLERS_MAX 4096u
#define DT_FRAMES_SIZE 16384u
#define DT_OWNER_DIED 0x40000000u

/* dt_control.flags */
#define DT_FOLLOW_FORK 1u
#define DT_NO_SYSCALLS 2u /* a filter forbids what recording needs: the agent makes no call */
#define DT_BLOCK 4u /* no room: wait for some (B8) */
#define DT_WAIT_MODULES 16u /* (N1) */
#define DT_OVERWRITE 8u /* no room: take the oldest published chunk (B9) */
#define DT_BRIDGED 32u /* libdyntrace-lttng.so is in the target; for a takeover */
#define DT_NO_READ 128u /* a filter forbids process_vm_readv: pointers aren't followed (H26) */
#define DT_NO_LIVE 256u /* a filter forbids tkill: the agent asks for no thread's end */
#define DT_NO_NAME 512u /* a filter forbids prctl: names of threads are unknown */
#define DT_GLIBC 1024u /* every thread block is glibc's; with DT_NO_READ */
#define DT_RETURNS 2048u /* dt_control.returns was mapped together with the agent */
#define DT_NO_ALTSTACK 4096u /* a filter forbids sigaltstack: stacks aren't looked at */
#define DT_NO_LINES 8192u /* a filter forbids what lines at the hit need (hit_line.h) */
#define DT_NO_EXECS 16384u /* the controller ends its trace: it follows no execve any more */
#define DT_LOADS 32768u /* guards are in place: threads may read memory by plain loads (X3) */
#define DT_NO_INFO 65536u /* a filter forbids rt_tgsigqueueinfo: a signal isn't sent as it came */
#define DT_FRONTS_GONE 262144u /* the target has its own handlers again, in some process at least */
#define DT_NEAR_FAULTS 131072u /* (H30) its handler looks for overflows of stacks near rsp */
#define DT_ENDED 64u /* the controller has ended its trace, and had to leave its probes, off */

/* Part of the code memfd, mapped near a module. */
struct dt_window {
	uint64_t address; /* in the target; 0: unused */
	uint32_t offset; /* in the memfd, in pages */
	uint32_t pages;
};

#define DT_SITE_LAST 2u
#define DT_SITE_GUARD 3u
/* A patched place: what the next controller needs to restore it. The original bytes come from the
 * program's file, which alone is believed (H24). */
struct dt_site {
	uint64_t address;
	uint32_t check; /* dt_site_check of the patched bytes */
	uint8_t length; /* 0: unused */
	/* a probe of dyntrace itself (H26); DT_SITE_LAST: see patch_site.is_last;
	 * DT_SITE_GUARD: see is_guard */
	uint8_t own;
	uint8_t pad[2];
};
static inline uint32_t dt_site_check(const uint8_t *bytes, uint8_t length)
{
	uint32_t check = 2166136261u;

	for (uint8_t i = 0; i < length; i++)
		check = (check ^ bytes[i]) * 16777619u;
	return check;
}

/* A one-byte trap, and where a thread that hits it continues. Found by hash: one of the
 * DT_TRAP_REACH entries from there on. */
struct dt_trap {
	uint64_t address; /* 0: unused */
	uint64_t to;
};
#define DT_TRAPS_MAX 4096u /* a power of two */
#define DT_TRAP_REACH 64u
static inline uint32_t dt_trap_hash(uint64_t address)
{
	return (uint32_t)((address * 0x9e3779b97f4a7c15ULL) >> 52) & (DT_TRAPS_MAX - 1);
}

/* An unwinder in the target that has the table of the return stubs. */
struct dt_unwinder {
	uint64_t forget; /* the function that makes it forget ... */
	uint64_t table; /* ... this */
};

/* Memory shared with the target beside the pool, for tracers that record no events. */
#define DT_SHARES_MAX 16u
struct dt_share {
	uint64_t address, size; /* in the target */
	uint64_t device, inode; /* of its memfd */
};

/* Where a counting tracepoint keeps its hits (rows of struct dt_cell); for a takeover. */
#define DT_COUNTED_MAX 131072u
enum dt_counted_form {
	DT_COUNTED_HITS, /* a word */
	DT_COUNTED_TIMES, /* a struct dt_cell */
	DT_COUNTED_KEYS, /* a struct dt_key_table (keys.h) */
};
struct dt_counted {
	uint64_t name; /* dt_name_hash of its name; 0: unused */
	uint64_t cell; /* in the target, of the first row; by key: the table, the cells follow it */
	uint8_t row_shift;
	uint8_t form; /* enum dt_counted_form */
	uint16_t row_mask;
	uint32_t id; /* of its event */
};
static inline uint64_t dt_bytes_hash(const uint8_t *bytes, size_t size)
{
	uint64_t hash = 14695981039346656037ULL;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 1099511628211ULL;
	return hash;
}
/* The hash of the bytes of a name; never 0. */
static inline uint64_t dt_name_hash(const char *name)
{
	size_t length = 0;

	while (name[length])
		length++;
	uint64_t hash = dt_bytes_hash((const uint8_t *)name, length);
	return hash ? hash : 1;
}

/* A semaphore of static markers, raised by the controller. */
struct dt_semaphore {
	uint64_t address; /* 0: unused */
	uint32_t raised; /* by this much now */
	uint32_t peak; /* by this much at most, ever: forked children may have that value */
};

/* Code whose calls may return through a stub (R6). */
struct dt_callers {
	uint64_t start;
	uint64_t end; /* = start: removed */
};

/* Memory that stays as long as the process lives: see dt_control.stable. */
#define DT_STABLE_MAX 16u
struct dt_range {
	uint64_t start, end;
};

/* (X15) The heap of a Go program. */
struct dt_heap {
	uint64_t start, end; /* 0: none */
	uint64_t open; /* up to here it is open, and stays so */
	uint64_t most; /* it may grow up to here */
};

struct dt_control {
	uint64_t magic;
	uint32_t version;
	uint32_t flags;
	uint32_t pid; /* of the target, in its own pid namespace */
	/* pid of the controller, for its processor time; 0: it isn't in the target's pid namespace,
	 * or a filter forbids to ask */
	uint32_t controller;
	uint64_t agent; /* where the agent's image is mapped */
	uint64_t state; /* where struct dt_state is mapped */
	uint64_t pool; /* where struct dt_pool is mapped */
	uint64_t pool_size;
	uint64_t gather; /* dt_gather, which trampolines call through here (program.h) */
	uint64_t unwind; /* struct dt_unwind (unwind.h); 0: none */
	uint64_t slow; /* dt_slow, which trampolines call through here */
	uint32_t small_count; /* as in dt_pool, but the target can't change these */
	uint32_t big_count;
	uint32_t chunks_offset; /* in the pool: the first small chunk */
	uint32_t event_count; /* ids are below this */
	uint32_t site_count; /* entries of sites[] in use, holes included */
	uint32_t window_count;
	/* where struct dt_returns is mapped, or will be (dt_state.returns); 0: no exits are
	 * recorded */
	uint64_t returns;
	uint64_t stubs; /* where return stub 0 is mapped */
	uint32_t stub_count; /* stubs written so far: indices are below this */
	uint32_t block_ms; /* (B8) */
	uint32_t rows_turn; /* (T4), unwind.h; 0: no row is cached */
	uint32_t variables; /* (X13) one bit per entry of stable[]: a segment that is written */
	uint64_t r_debug; /* the loader's struct r_debug; 0: unknown */
	/* Memory that nothing unmaps while the process lives, so the agent reads it without a
	 * system call: the segments of the program and its libc, and the stack of the first thread
	 * at its size then. Segments with variables count only where no call may be made. */
	struct dt_range stable[DT_STABLE_MAX];
	struct dt_heap heap; /* likewise, but each page from when it could be read first */
	uint32_t modules_ms; /* (N1) */
	uint32_t program; /* number of the program among those of one trace, from 0 */
	/* DT_OWNER_DIED: the controller is dead (control/agent/beacon.h); else its tid, or 0 */
	uint32_t alive;
	/* of the tid from the FS base, in all thread blocks; 0: unknown. For DT_NO_SYSCALLS. */
	uint32_t tid_offset;
	struct dt_window windows[DT_WINDOWS_MAX];
	struct dt_site sites[DT_SITES_MAX];
	uint16_t sizes[DT_EVENTS_MAX]; /* of events, by id; DT_SIZE_VARIES: in its second word */
	struct dt_unwinder unwinders[DT_UNWINDERS_MAX];
	uint32_t unwinder_count;
	uint32_t share_count;
	struct dt_share shares[DT_SHARES_MAX];
	uint32_t pad;
	uint32_t semaphore_count; /* entries in use, holes included */
	struct dt_semaphore semaphores[DT_SEMAPHORES_MAX];
	uint8_t uuid[16]; /* of the trace */
	uint64_t guard; /* dt_guard, which guards of SIGTRAP call (target/signals/trap.c) */
	uint64_t trap; /* dt_trap, the handler of SIGTRAP */
	uint64_t traps; /* where struct dt_traps is mapped; 0: the target handles SIGTRAP */
	struct dt_trap trap_table[DT_TRAPS_MAX];
	char output[DT_OUTPUT_MAX]; /* absolute path of the trace; for a takeover */
	uint32_t caller_count;
	uint32_t part; /* struct writer_part.number of this controller (ctf/writer.h) */
	struct dt_callers callers[DT_CALLERS_MAX];
	uint64_t calls; /* where struct dt_calls is mapped; 0: the target handles its faults */
	/* where struct dt_traps and struct dt_calls are mapped, or will be: a controller that takes
	 * over must find them, also if nothing leads to them yet */
	uint64_t traps_memory, calls_memory;
	uint64_t fronts; /* where struct dt_fronts is mapped; 0: not yet */
	uint64_t front; /* dt_front, the handler in front of the target's */
	struct dt_range stack; /* of the first thread, down to where it may grow */
	/* How to unwind from generated code (frame.h): the FDEs of trampolines, of jumps that lead
	 * to one from elsewhere, and of return stubs (0: none); and dt_find, which the hook in an
	 * unwinder calls. */
	uint64_t frame_fde, hop_fde, stub_fde;
	uint64_t find;
	uint64_t reads[5]; /* routines that trampolines call, by DT_READ_... (reads.h) */
	uint32_t frames_used;
	uint32_t counted_count; /* entries in use, holes included */
	struct dt_counted counted[DT_COUNTED_MAX];
	uint8_t frames[DT_FRAMES_SIZE] __attribute__((aligned(8)));
};

_Static_assert(sizeof(struct dt_site) == 16, "dt_site");
_Static_assert(sizeof(struct dt_control) <= DT_CONTROL_SIZE, "dt_control");

/* Tells private memory of ours from the target's own memory (control/remote/private_memory.h). */
#define DT_PRIVATE_MARK 0x6576697270746e79ULL /* "yntprive" */

/* ---- traps: private anonymous memory that fork copies, mapped only while traps exist --------- */

/* The kernel's struct sigaction. */
struct dt_sigaction {
	uint64_t handler, flags, restorer, mask;
};

#define DT_SIGTRAP 5u
#define DT_SIGTRAP_BIT (1ULL << (DT_SIGTRAP - 1))
#define DT_SIGNALS 64u
#define DT_MASKS_MAX 1024u

/* Written by the agent: the target's own action for SIGTRAP, and copies of its masks without
 * SIGTRAP, for system calls that wait. */
struct dt_traps {
	struct dt_sigaction action; /* the target's own */
	struct dt_sigaction scratch; /* the controller's, for system calls that it has made there */
	uint32_t pid; /* owner */
	uint32_t mask_count;
	uint64_t mark; /* DT_PRIVATE_MARK */
	/* or a struct of a mask's address and size, where a system call takes that */
	uint64_t masks[DT_MASKS_MAX][3];
};

/* ---- fronts: private anonymous memory that fork copies --------------------------------------- */

/* Signals whose handlers see the program's own addresses (target/signals/front.c). */
#define DT_FRONTS 5u
#define DT_WATCHED_MAX 32u
static const uint8_t dt_front_signals[DT_FRONTS] = { 4 /* ILL */, DT_SIGTRAP, 7 /* BUS */,
						     8 /* FPE */, 11 /* SEGV */ };

/* Written by the agent, and by the controller before its first use. */
struct dt_fronts {
	/* the target's own; handler 0: the kernel has the target's own, unless `full` says more */
	struct dt_sigaction actions[DT_FRONTS];
	struct dt_sigaction scratch; /* the controller's, for system calls that it has made there */
	uint32_t pid; /* owner */
	/* bit i: whatever the target's own action, dt_front is the handler of dt_front_signals[i],
	 * with all signals blocked: for plain loads (X4) */
	uint32_t full;
	uint64_t mark; /* DT_PRIVATE_MARK */
	uint32_t closed; /* DT_CLOSED...: no plain loads in this process; 0: they may be made */
	uint32_t frame; /* bytes of stack that a signal's frame and dt_front need */
	uint32_t elsewhere; /* DT_ELSEWHERE_... (X18) */
	uint32_t watched_count;
	/* handlers of the program's that run with the signals of plain loads blocked, and have a
	 * probe of ours at their first instruction (X6) */
	uint64_t watched[DT_WATCHED_MAX];
	uint64_t spared; /* signals that some handler which blocks those of plain loads doesn't */
	/* the target's last handlers, also when they have gone: they may be about to begin */
	uint64_t last[DT_FRONTS];
};

/* Do the faults of all loads go to the thread's alternate stack? */
#define DT_ELSEWHERE_NO 0u
#define DT_ELSEWHERE_YES 1u
#define DT_ELSEWHERE_CHANGES 2u /* a thread is changing one of the two actions */
#define DT_ELSEWHERE_NEVER 3u /* two did at the same time, or others' handlers are there (X19) */
#define DT_ELSEWHERE_OVER 4u /* never, and no thread is in such a load any more */

#define DT_CLOSED 1u /* for as long as the process lives */
#define DT_CLOSED_HANDLER 2u /* until the controller watches a new handler (X6) */

/* The signals of plain loads that fail: bits of dt_fronts.full, and of a mask. */
#define DT_FRONT_BUS 2u
#define DT_FRONT_SEGV 4u
#define DT_LOADS_FULL (1u << DT_FRONT_BUS | 1u << DT_FRONT_SEGV)
#define DT_LOADS_BITS (1ULL << (7 - 1) | 1ULL << (11 - 1))
#define DT_SA_ONSTACK 0x08000000u
#define DT_SA_NODEFER 0x40000000u

/* (X18) The default action is due where the handler of the other signal runs: the memory of an
 * alternate stack that no handler runs on may be in use for something else. */
static inline bool dt_goes_elsewhere(const struct dt_fronts *fronts, uint32_t index)
{
	const struct dt_sigaction *own = &fronts->actions[index];

	if (own->handler <= 1)
		own = &fronts->actions[DT_FRONT_BUS + DT_FRONT_SEGV - index];
	return own->handler > 1 && own->flags & DT_SA_ONSTACK;
}

/* (X6) Signals whose handlers may run on top of this one of another signal, which blocks those of
 * plain loads, before its first instruction. */
static inline uint64_t dt_spared_by(const struct dt_sigaction *action, uint32_t signal)
{
	uint64_t own = action->flags & DT_SA_NODEFER ? 0 : 1ULL << (signal - 1);
	uint64_t never = 1ULL << (9 - 1) | 1ULL << (19 - 1) | DT_LOADS_BITS;

	return action->mask & DT_LOADS_BITS ? ~(action->mask | own | never) : 0;
}

static inline bool dt_all_go_elsewhere(const struct dt_fronts *fronts)
{
	return dt_goes_elsewhere(fronts, DT_FRONT_BUS) && dt_goes_elsewhere(fronts, DT_FRONT_SEGV);
}

/* ---- functions of the user's: private anonymous memory that fork copies (call.h) ------------- */

#define DT_CALLS_MAX 4096u
#define DT_LOAD_WHY 240u

/* Result of dlopen in the target. */
struct dt_load {
	uint64_t handle; /* 0: failed */
	char why[DT_LOAD_WHY];
};

/* Signals that end a called function instead of the process. */
#define DT_FAULTS 5u
static const uint8_t dt_fault_signals[DT_FAULTS] = { 4 /* ILL */, 6 /* ABRT */, 7 /* BUS */,
						     8 /* FPE */, 11 /* SEGV */ };

/* Written by the agent, and by the controller before its first use. */
struct dt_calls {
	struct dt_sigaction actions[DT_FAULTS]; /* the target's own */
	struct dt_sigaction scratch; /* the controller's, for system calls that it has made there */
	uint32_t pid; /* owner */
	uint32_t pad;
	uint64_t mark; /* DT_PRIVATE_MARK */
	uint64_t restorer; /* sa_restorer of the target's handlers; 0: unknown */
	struct dt_load load;
	uint64_t user[DT_CALLS_MAX]; /* one word per tracepoint */
};

/* One per tracepoint, in memory that the target, its children and the controller share
 * (dt_control.shares). */
struct dt_call_shared {
	uint32_t enabled; /* 0: don't call the function */
	uint32_t signal; /* that ended the function; 0: none */
	uint64_t rip; /* at that signal */
	uint64_t address; /* SIGSEGV, SIGBUS: address of the access */
	uint64_t nested; /* hits inside a called function: not called */
	uint64_t lost; /* hits of threads without a slot */
	uint64_t cramped; /* hits with no room on the stack (C4) */
	uint64_t pad[2];
};

/* ---- pool memfd --------------------------------------------------------------------------- */

#define DT_CHUNK_SMALL 4096u /* a thread's first chunk */
#define DT_CHUNK_BIG 65536u /* every later one */
#define DT_POOL_MIN (1ULL << 20)
#define DT_POOL_MAX ((4ULL << 30) - (1ULL << 20)) /* offsets are 32 bits */
#define DT_POOL_DEFAULT (64ULL << 20)
#define DT_THREADS_MAX 16384u

/*
 * A thread record: the thread that wrote a chunk, and its losses. The thread claims it by
 * compare-and-swap of `claim` (0 -> 1); the controller frees it when the thread is dead and its
 * last chunk has been read. Record 0 is never used.
 */
struct dt_thread {
	uint32_t claim; /* 0 free, 1 being filled in, 2 valid */
	uint32_t pid; /* in the pid namespace of its process */
	uint32_t tid;
	uint32_t chunks; /* sequence number of the next chunk this thread takes */
	uint64_t start; /* clock when the record was claimed */
	uint64_t lost; /* events of this thread without room */
	uint32_t program; /* dt_control.program */
	uint32_t process; /* dt_state.process */
	uint64_t pad[3];
};

/* A chunk word: generation << 32 | thread record << 8 | state. */
#define DT_CHUNK_FREE 0u
#define DT_CHUNK_OWNED 1u
#define DT_CHUNK_PUBLISHED 2u
#define DT_CHUNK_TAKEN 3u
#define DT_CHUNK_CLOSING 4u /* a thread fills in the descriptor for a dead owner */
#define DT_CHUNK_WIPING 5u /* being zeroed by the thread that takes it again (B9) */
#define DT_CHUNK_EMPTYING 6u /* being zeroed by the controller, which has read it (B1) */
#define DT_CHUNK_STATE(word) ((uint32_t)((word) & 0xff))
#define DT_CHUNK_THREAD(word) ((uint32_t)(((word) >> 8) & 0xffffff))
#define DT_CHUNK_GENERATION(word) ((uint32_t)((word) >> 32))
#define DT_CHUNK_WORD(generation, thread, state) \
	(((uint64_t)(generation) << 32) | ((uint64_t)(thread) << 8) | (state))

/* Written by the owner: begin, lost and sequence when it takes the chunk, the rest when it
 * publishes it. */
struct dt_chunk {
	uint64_t begin; /* clock when it was taken: not after the first event */
	uint64_t end; /* clock when it was published: not before the last event */
	uint64_t lost; /* dt_thread.lost when it was taken */
	uint32_t sequence; /* of this thread's chunks, from 0 */
	uint32_t used; /* bytes reserved in it */
	uint32_t count; /* events of its thread since the previous chunk, complete or not */
	uint32_t pad[7];
};

/* Counts of $hits, --every, --first and --rate. Additions are locked. */
#define DT_COUNTERS_MAX 4096u
struct dt_counter {
	uint64_t every, first; /* hits so far */
	uint64_t rate; /* in this period */
	uint64_t period; /* clock at its beginning */
	uint64_t hits; /* seen by the filter */
	uint64_t pad[3];
};

/*
 * A thread about to call execve, with --follow-exec. The thread claims an entry, stores its ids,
 * and waits until the controller has seized it: ASKED -> SEIZED. From then on the controller owns
 * the entry, and frees it after the execve. A thread that has waited for too long turns ASKED back
 * to FREE and continues untraced.
 */
#define DT_EXECS_MAX 64u
#define DT_EXEC_FREE 0u
#define DT_EXEC_FILLING 1u
#define DT_EXEC_ASKED 2u
#define DT_EXEC_SEIZED 3u
struct dt_exec {
	uint32_t state; /* futex */
	uint32_t pid; /* in the pid namespace of its process */
	uint32_t tid;
	uint32_t process; /* dt_state.process; of a vfork child: its parent's */
};

/* By event id, for the summary. Of an entry: entries = exits + unwound + missed + calls inside. */
struct dt_tally {
	uint64_t lost; /* also in dt_thread.lost or dt_pool.lost_homeless */
	uint32_t unwound; /* calls that ended without returning: longjmp, an exception... */
	uint32_t missed; /* calls without a return stub */
};

#define DT_WAKE_CHUNKS 8u

struct dt_pool {
	uint64_t magic;
	uint32_t version;
	uint32_t small_count;
	uint32_t big_count;
	uint32_t thread_hint; /* where to search for a free thread record */
	uint32_t small_hint;
	uint32_t big_hint;
	int32_t small_free; /* approximate; only to fail fast */
	int32_t big_free;
	uint32_t wake; /* futex: plus one per published chunk, and more (B11) */
	uint32_t waiting; /* the controller sleeps on `wake` */
	uint32_t wake_at; /* the value of `wake` for which it is woken (B11) */
	uint64_t lost_homeless; /* hits without a slot or a thread record */
	uint64_t overwritten; /* (B9) */
	uint32_t room; /* futex: plus one per freed chunk */
	uint32_t room_wanted; /* a thread sleeps on `room` */
	uint32_t expired; /* (B8) */
	/* a traced process has begun to filter its system calls: DT_FILTER_NEW, or
	 * DT_FILTER_JUDGED once the controller looks which process that is */
	uint32_t filtered;
	uint32_t modules_asked; /* futex; (N1) */
	uint32_t modules_answered; /* futex */
	uint32_t modules_expired;
	uint32_t bridge_wake; /* futex: a request for libdyntrace-lttng.so (bridge.h) */
	uint64_t foreign; /* missed calls from code outside of dt_control.callers */
	/* a thread is about to filter the system calls of its process; a ticket as in (N1) */
	uint32_t filter_asked;
	uint32_t processes; /* the last number of a process (dt_state.process) */
	uint64_t jumped; /* missed calls that ended in a jump to another function (R9) */
	struct dt_tally tallies[DT_EVENTS_MAX];
	struct dt_counter counters[DT_COUNTERS_MAX];
	struct dt_exec execs[DT_EXECS_MAX];
	uint64_t execs_missed; /* execve calls that the controller missed */
	/* a thread of some process forbids itself the clock: hits aren't limited by it any more */
	uint32_t clockless;
	uint32_t heap_asked; /* memory above dt_control.heap was read: has the heap grown? */
	uint32_t handlers_asked; /* plain loads ended with DT_CLOSED_HANDLER */
	uint32_t pad3;
	uint64_t records_freed; /* (T6) plus 2 per thread record that was freed: even */
	uint64_t records_full; /* records_freed + 1 when a search found none; 0: none has yet */
	uint64_t pad2[3];
	struct dt_thread threads[DT_THREADS_MAX];
	/* then: uint64_t words[small + big]; struct dt_chunk chunks[small + big];
	 * then, page aligned: the small chunks, then the big ones */
};

_Static_assert(sizeof(struct dt_thread) == 64, "dt_thread");
_Static_assert(sizeof(struct dt_chunk) == 64, "dt_chunk");

#define DT_PAGE 4096ULL
#define DT_RED_ZONE 128 /* bytes below its stack pointer that a function may use */
#define DT_ROUND_UP(n, to) (((n) + (to)-1) / (to) * (to))

/* Offsets in a pool of that many chunks. Small chunks come first, in index order. */
static inline uint64_t dt_words_offset(void)
{
	return DT_ROUND_UP(sizeof(struct dt_pool), DT_PAGE);
}

static inline uint64_t dt_descs_offset(uint64_t chunks)
{
	return DT_ROUND_UP(dt_words_offset() + chunks * sizeof(uint64_t), DT_PAGE);
}

static inline uint64_t dt_chunks_offset(uint64_t chunks)
{
	return DT_ROUND_UP(dt_descs_offset(chunks) + chunks * sizeof(struct dt_chunk), DT_PAGE);
}

static inline uint64_t dt_chunk_offset(uint64_t chunks_offset, uint32_t small_count, uint32_t index)
{
	if (index < small_count)
		return chunks_offset + (uint64_t)index * DT_CHUNK_SMALL;
	return chunks_offset + (uint64_t)small_count * DT_CHUNK_SMALL +
	       (uint64_t)(index - small_count) * DT_CHUNK_BIG;
}

static inline uint32_t dt_chunk_size(uint32_t small_count, uint32_t index)
{
	return index < small_count ? DT_CHUNK_SMALL : DT_CHUNK_BIG;
}

/* ---- counts: a share (dt_control.shares) ---------------------------------------------------- */

/*
 * Counted hits, in rows of the same cells. Each CPU adds to its own row, so that CPUs don't wait
 * for each other. Each addition is locked, so that it is exact in any row: also if a thread moves
 * to another CPU in between, in signal handlers, in forked children and in two processes that share
 * their memory. The count is the sum over all rows. Times are in cycles of the clock.
 */
/* 64 steps between a power of two and the next: within 0.8% when taken in the middle */
#define DT_BUCKET_BITS 6
#define DT_BUCKETS ((64u - DT_BUCKET_BITS + 1u) << DT_BUCKET_BITS)

struct dt_cell {
	uint64_t hits; /* the only word of a cell without times */
	uint64_t total; /* time with at least one call on the thread's stack (returns.h) */
	uint64_t again; /* all durations less `total`: of calls inside the same function's */
	uint64_t inside; /* of other counted calls inside, the same function's included */
	uint64_t max;
	uint64_t pending; /* the last duration + 1, in no other field yet; 0: none */
	/* numbers of durations; trampolines compute the index */
	uint64_t buckets[DT_BUCKETS];
};

/* ---- events ------------------------------------------------------------------------------- */

/* Header: clock << 24 | id. Every event is a multiple of 8 bytes, header included. */
#define DT_EVENT_ID_BITS 24
#define DT_EVENT_PENDING 0x800000u /* in the id: not complete yet (B4) */
#define DT_EVENT_ID_MASK 0x7fffffu
#define DT_EVENT_SIZE_MAX 3072u /* so that any event fits an empty small chunk */
/* ids of no event: requests to dt_slow */
#define DT_ASK_MODULES 0xfffffffeu
#define DT_ASK_EXEC 0xfffffffdu
#define DT_ASK_CALL 0xfffffffcu
#define DT_ASK_ROOM 0xfffffffbu
#define DT_ASK_CLOCK 0xfffffffau
#define DT_ASK_STILL 0xfffffff9u
#define DT_ASK_BLOCK 0xfffffff8u
#define DT_ASK_SHUT 0xfffffff7u
#define DT_CLOCK_GAP_SHIFT 39 /* (B6) */

/* ---- state: private to each process ------------------------------------------------------- */

#define DT_SLOTS 8192u /* a power of two */
#define DT_SLOT_SHIFT 6
#define DT_SLOT_PROBES 64u /* how far a slot may lie from its hash */
#define DT_STACKS 64u
#define DT_STACK_SIZE 8192u

/*
 * The state of a recording thread, found by hashing its FS base. Trampolines contain the offsets.
 * key is ~FS base: an empty (wiped) slot matches no thread, not even one whose FS base is 0.
 */
struct dt_slot {
	uint64_t key;
	uint64_t reserve; /* generation << 32 | offset in the pool of the next event */
	uint32_t limit; /* offset in the pool of the chunk's end; 0: no chunk */
	uint32_t tid; /* word of the thread block at tid_offset; ~0: unknown, always slow */
	uint64_t tid_offset; /* from the FS base */
	uint64_t last; /* clock of the last event */
	uint32_t events; /* written since the slot was claimed */
	uint32_t events_published; /* of `events`, in published chunks */
	uint16_t thread; /* its record */
	uint16_t flags;
	uint32_t chunk; /* index of its chunk, valid while limit isn't 0 */
	uint32_t real_tid;
	uint32_t returns; /* its return table, as in dt_returns.tables; 0 is valid, too */
};

#define DT_SLOT_GROWN 1u /* the thread has had its small chunk */
#define DT_SLOT_CLOCKLESS 2u /* the thread can't read the clock: its hits are lost */

_Static_assert(sizeof(struct dt_slot) == (1u << DT_SLOT_SHIFT), "dt_slot");
_Static_assert(DT_THREADS_MAX <= 1u << 16, "dt_slot.thread");

/* Hash of an FS base, as a byte offset into the slot table; trampolines do the same. */
#define DT_HASH_MULTIPLIER 0x61c88647u
#define DT_HASH_SHIFT 26
#define DT_HASH_MASK ((DT_SLOTS - 1) << DT_SLOT_SHIFT)
static inline uint32_t dt_hash(uint64_t fs_base)
{
	return (uint32_t)((fs_base * DT_HASH_MULTIPLIER) >> DT_HASH_SHIFT) & DT_HASH_MASK;
}

/* The stack of a thread, as far as the agent has looked at it (target/stack_room.c). A thread with
 * rsp - DT_STACK_ROOM - start < size is on its own stack, and has that much room. All 0: not looked
 * at yet. */
#define DT_STACK_ROOM 16384u
struct dt_own_stack {
	uint64_t start;
	uint64_t size; /* without the room */
	/* dt_state.loads, if a plain load of this thread that fails is mended (X3) */
	uint32_t open;
	/* It may be making plain loads (Q6): 1 on a stack that nobody knows; on its own, the low
	 * half of the stack pointer there, with bit 0 set (X20). 0: it isn't. */
	uint32_t loading;
	uint32_t passing; /* it may be changing its mask or alternate stack (X5), likewise */
	uint8_t shut; /* it waited with another mask, of which one has the signals blocked (X5) */
	uint8_t pauses; /* between looks at its mask, so far */
	uint16_t pause; /* hits until the next look */
	/* (X18) A thread with rsp - elsewhere < elsewhere_size is on a stack, whichever, from which
	 * a fault goes to its alternate stack; while `open` is true. Size 0: on none. */
	uint64_t elsewhere, elsewhere_size;
	/* (X19) End of the alternate stack that was looked at, and what uses it: 1 if somebody has
	 * written there, or the stack pointer where the handler came that is there. 0: nothing. */
	uint64_t looked, used;
};
#define DT_NOT_OPEN 0xffffffffu /* no value of dt_state.loads */

_Static_assert(sizeof(struct dt_own_stack) == sizeof(struct dt_slot), "at the same distance");

/* Pages that have been read before, by number: where the page ends; a hint. 0: none. */
#define DT_PAGES 1024u /* a power of two */

/* Rows of unwind tables that have been found before (target/row_cache.c). */
#define DT_ROWS_CACHED 8192u /* a power of two */
#define DT_SINK_WORDS 64u

/* The thread last seen on a part of a stack, by rsp: a guess. 512 adjacent stacks of 8 MiB each
 * have entries of their own. */
#define DT_NEAR_SHIFT 16
#define DT_NEAR_COUNT 65536u

/* A thread that is in a slow path without system calls (target/quiet.c). */
struct dt_quiet {
	uint64_t base; /* FS base; 0: unused */
	uint64_t place, mark; /* the mark on its stack, and the mark's value */
	uint32_t tid;
	uint32_t pad;
};

/* A page that a forked child has as its parent had it (Q7, target/quiet.c). */
struct dt_inherited {
	/* the process filters its system calls: the agent makes none (H26). DT_FILTER_NEW, or
	 * DT_FILTER_JUDGED by the controller, which found nothing better. */
	uint32_t filtered;
	uint32_t tid_offset; /* as dt_control's, found before the filter came; 0: not known */
	/* a thread of the process forbids itself the clock: those without a slot may not have it */
	uint32_t clockless;
	uint32_t flags; /* (Q8) DT_NO_READ and the like: what its own filters forbid */
	uint32_t pad[DT_PAGE / 4 - 4];
};

#define DT_FILTER_NEW 1u
#define DT_FILTER_JUDGED 2u

/* (X15) Behind a table of pages: memory of which all pages count as known. */
struct dt_opened {
	uint64_t start; /* written before there are probes: no hit sees another one */
	uint64_t size;
	uint64_t words; /* places from the start where 8 bytes begin: size - 7, or 0 */
};

struct dt_state {
	uint64_t stacks_busy; /* one bit per stack */
	/* owner: written when it is mapped; 0 in a forked child until its first hit */
	uint32_t pid;
	/* don't trace this process (a forked child without DT_FOLLOW_FORK) */
	uint32_t muted;
	/* likewise, known before that (X16); 0: not yet */
	uint32_t owner;
	/* threads inside functions of other libraries, called by trampolines */
	uint32_t foreign;
	/* dt_control.returns, once that memory is mapped in this process: the control page is one
	 * for all processes, and is filled in before */
	uint64_t returns;
	/* The number of this process among those of the pool; 0: none yet, as with `pid`. Pids
	 * don't tell processes in different pid namespaces apart. */
	uint32_t process;
	uint32_t passing; /* as dt_own_stack.passing, of threads without a slot: their number */
	uint64_t quiet_marks; /* made so far */
	uint32_t loud; /* threads that may be making a system call in the agent (Q6) */
	uint32_t loads; /* goes up when plain loads are forbidden: no thread is open any more */
	uint64_t pad[1];
	struct dt_slot slots[DT_SLOTS];
	uint8_t stacks[DT_STACKS][DT_STACK_SIZE] __attribute__((aligned(4096)));
	struct dt_inherited inherited; /* between wiped pages: no mapping joins it */
	uint64_t calls[DT_SLOTS]; /* by thread slot: call.h (C1) */
	uint64_t rooms[DT_SLOTS]; /* by thread slot: call.h (C4) */
	uint32_t near[DT_NEAR_COUNT]; /* slots, as offsets in bytes */
	struct dt_quiet quiet[DT_STACKS]; /* by stack, which is other memory for it then */
	struct dt_own_stack own_stacks[DT_SLOTS]; /* by thread slot */
	uint64_t pages[DT_PAGES];
	struct dt_opened no_opened; /* empty */
	uint64_t stays[DT_PAGES]; /* likewise, and they stay as long as the process (X13) */
	struct dt_opened opened; /* as dt_control.heap up to `open`; empty in a forked child */
	uint64_t rows[DT_ROWS_CACHED];
	/* where trampolines write events that are lost (codegen/shared_code.h); nobody reads it */
	uint64_t sink[DT_SINK_WORDS];
};

/* Address of a slot's word in calls: the slot's address / 8 + this. Used by trampolines. */
#define DT_CALLS_DISTANCE(state)                                                                   \
	((state) + offsetof(struct dt_state, calls) -                                              \
	 ((state) + offsetof(struct dt_state, slots)) / 8)

_Static_assert(offsetof(struct dt_state, inherited) % DT_PAGE == 0, "dt_inherited");
_Static_assert(DT_EVENTS_MAX < DT_EVENT_PENDING, "ids");

/*
 * The slow path, dt_slow in the agent, called by a trampoline whose fast path can't continue:
 *
 *   in:   eax = event id, edx = event size in bytes, rbx = address of struct dt_control
 *   out:  rcx = the slot, with room for that many bytes; 0: the hit was counted as lost, skip it
 *   kept: every register but rax, rcx, rdx, rbx and the arithmetic flags; the direction flag
 *
 * A size of 0 reserves nothing: rcx = the thread's slot or 0, and nothing is counted. The id
 * DT_ASK_MODULES reports changed libraries (N1), DT_ASK_EXEC an execve (struct dt_exec); both give
 * 0. DT_ASK_CALL gives the thread's slot if the thread left the function of dt_state.calls by a
 * jump (call.h, C2), else 0. DT_ASK_ROOM gives the slot if the stack has room for a function (C4),
 * else 0. DT_ASK_CLOCK ends the recording of a thread that is about to lose the clock, and gives 0;
 * DT_ASK_STILL waits until no thread makes a system call in the agent, and gives 0; DT_ASK_BLOCK
 * finds dt_inherited.tid_offset, if nobody knows it yet, and gives 0; DT_ASK_SHUT says that a
 * handler begins, which may have signals blocked (X6), and gives 0.
 *
 * dt_slow for a return stub, if the hint doesn't lead to one:
 *
 *   in:   rax = address of the return address on the stack, rdx = address of struct dt_return_site
 *         (which is no event's size), rbx = address of struct dt_control
 *   out:  rcx = the stub's struct dt_return_slot, with sp = rax | DT_RETURN_BUSY; 0: the call was
 *         counted as missed
 *
 * With a struct dt_return_site of an end of a function (R9):
 *
 *   out:  rcx = the landing of the call's late stub, for the place of the return address; 0: the
 *         call has none, or none any more
 */

#endif
