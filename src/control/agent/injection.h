/*
 * injection.h - an injection from the inside: what agent.c and its parts share while a thread of
 * the target is held.
 *
 * A function that fails leaves what was made until then in struct injection and its agent, and
 * agent.c undoes it.
 */
#ifndef DYNTRACE_INJECTION_H
#define DYNTRACE_INJECTION_H

#include "agent.h"
#include "control/remote/remote.h"

#define AGENT_POOL_NAME "dyntrace-pool"

struct injection {
	struct stop *stop;
	struct proc *proc;
	struct remote *remote;
	struct agent *agent;
	const struct agent_elf *image;
	uint32_t small, big;
	int code_there, pool_there; /* the target's descriptors, -1: closed */
	bool no_seal; /* the kernel doesn't know MFD_NOEXEC_SEAL */
	bool all_text; /* the whole base is executable at first */
};

/* ---- injection_memfd.c ---- */

/* Flags of memfd_create, as far as is known what the kernel takes. */
uint64_t injection_memfd_flags(const struct injection *in);
/* Creates a memfd in the target, and fetches a copy of the target's descriptor. *ret_there is set
 * also if only the copy fails. */
struct error *injection_memfd_create(struct injection *in, const char *name, int *ret_there,
				     int *ret_fd);
/* Tells the memfd as /proc/PID/maps shows it. */
struct error *injection_memfd_identify(int fd, uint64_t *ret_device, uint64_t *ret_inode);
/* Sizes the memfd, maps it here (`at` NULL: anywhere), and only then seals it. */
struct error *injection_memfd_prepare(int fd, uint64_t size, int seals, void *at,
				      void **ret_memory);
/* Makes the memfd of code, or that of the pool, and maps it here. */
struct error *injection_memfd_make_code(struct injection *in);
struct error *injection_memfd_make_pool(struct injection *in);
/* Passes the target a descriptor of another agent's pool. */
struct error *injection_memfd_share_pool(struct injection *in, const struct agent *other);
/* Closes the target's descriptors. */
struct error *injection_memfd_close(struct injection *in);

/* ---- injection_map.c ---- */

/* Maps the base, at least the seed of it executable. At a place of our choice that takes one call,
 * for all of it: executable memory is mapped so from the start (H35). */
struct error *injection_map_base(struct injection *in, taddr wanted);
/* Gives all parts of the base their protection. */
struct error *injection_map_parts(struct injection *in);
/* Maps the pool, at `wanted` if that is free. */
struct error *injection_map_pool(struct injection *in, taddr wanted);
/* Maps the agent's private memory, behind the base, and numbers the process. */
struct error *injection_map_state(struct injection *in);
/* A core dump reads shared memory to its last page, and so allocates what nobody has used (H41).
 * A dump that has it all is no failure. */
struct error *injection_map_leave_out(struct injection *in, taddr at, uint64_t size);
/* The seed of windows, which holds no code of probes. */
uint8_t *injection_map_desk(const struct agent *agent);
/* Has the calls made that the rest of set_up asks for, in this order (ahead.h). */
struct error *injection_map_ahead(struct injection *in, const struct agent_options *options);

#endif
