/*
 * dyntrace.h - trace other programs from your own, in C and C++: the commands of dyntrace that use
 * the daemon.
 *
 *	struct dyntrace *dyntrace;
 *	struct dyntrace_error *error = dyntrace_connect(NULL, &dyntrace);
 *	if (!error)
 *		error = dyntrace_attach(dyntrace, "redis-server", 0);
 *	if (error) {
 *		fprintf(stderr, "%s\n", dyntrace_error_text(error));
 *		dyntrace_error_free(error);
 *	}
 *
 * Compile with `pkg-config --cflags --libs dyntrace`. All calls but lists of symbols and markers
 * need a running dyntraced, which decides who may do what (dyntraced(8)).
 *
 * Errors: a call returns NULL, or an error that the caller frees. Its text is one line for people.
 * When a call fails, its ret_ arguments are untouched. A missing text (NULL or empty) is an error,
 * too.
 *
 * Ownership: texts that you pass are copied. Texts that you get belong to the list, event or handle
 * that they came from.
 *
 * Threads: one thread at a time uses a handle (struct dyntrace, struct dyntrace_watch) or a list;
 * different threads may use different ones at once. A watch has a connection of its own: one thread
 * may wait in it while another makes calls. dyntrace_connect reads the environment. Calls wait for
 * the daemon's answer; a signal ends only dyntrace_watch_next. After fork only the parent may use
 * its handles. The library starts no threads, handles no signals and prints nothing.
 * dyntrace_list_symbols and dyntrace_list_markers run a program for a moment, which neither SIGCHLD
 * nor wait report.
 *
 * Versions: everything in this header stays as it is in libdyntrace.so.0; DYNTRACE_API_VERSION
 * goes up when something is added. Structures that you fill have a size field, and structures that
 * you get may grow at their ends, so programs needn't be built again.
 */
#ifndef DYNTRACE_DYNTRACE_H
#define DYNTRACE_DYNTRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DYNTRACE_API_VERSION 2

/* DYNTRACE_API_VERSION of the library that the program runs with. */
unsigned int dyntrace_api_version(void);

/* ---- errors ---------------------------------------------------------------------------------- */

struct dyntrace_error;

enum dyntrace_error_kind {
	DYNTRACE_FAILED, /* anything else */
	DYNTRACE_USAGE, /* an argument is missing or invalid */
	DYNTRACE_NOT_FOUND,
	DYNTRACE_NOT_PERMITTED,
	DYNTRACE_GONE, /* the process ended meanwhile */
	DYNTRACE_REFUSED, /* a tracepoint can't be placed there; the text says why */
};

const char *dyntrace_error_text(const struct dyntrace_error *error);
enum dyntrace_error_kind dyntrace_error_kind(const struct dyntrace_error *error);
void dyntrace_error_free(struct dyntrace_error *error); /* NULL is fine */

/* ---- the daemon ------------------------------------------------------------------------------ */

struct dyntrace;

/*
 * socket: path of the daemon's socket; NULL: $DYNTRACE_SOCKET, else root's
 * /run/dyntrace/dyntraced.sock or the user's $XDG_RUNTIME_DIR/dyntrace.sock. When the daemon ends,
 * all calls fail from then on: connect again.
 */
struct dyntrace_error *dyntrace_connect(const char *socket, struct dyntrace **ret_dyntrace);
/* Processes stay attached, and tracepoints stay. NULL is fine. */
void dyntrace_close(struct dyntrace *dyntrace);

/* The daemon's state. May grow at its end. */
struct dyntrace_status {
	const char *version;
	const char *socket;
	const char *output; /* the folder where traces go by default */
	int pid;
	unsigned int uid;
	int recording; /* 0: stopped, also for processes to come */
	uint64_t processes; /* with the agent */
	uint64_t tracepoints;
	uint64_t waiting; /* tracepoints that wait for a program */
	uint64_t clients;
};

/* Since version 2. Valid until the next dyntrace_status of this handle. */
struct dyntrace_error *dyntrace_status(struct dyntrace *dyntrace,
				       const struct dyntrace_status **ret_status);

/* Remarks of the daemon on the last call, which are no errors: one per line; "" if none. */
const char *dyntrace_notes(const struct dyntrace *dyntrace);

/* ---- lists ----------------------------------------------------------------------------------- */

struct dyntrace_list;

struct dyntrace_process {
	int pid;
	unsigned int uid;
	const char *name;
	const char *loaded; /* injected, linked or preloaded */
	uint64_t tracepoints;
	const char *trace; /* the directory of its trace; NULL: none yet */
};

enum dyntrace_shape {
	DYNTRACE_BARE, /* an instruction, without values */
	DYNTRACE_ENTRY, /* a function's entry, with its arguments */
	DYNTRACE_ENTRY_EXIT, /* and its exit: return value and duration */
};

/* Times are in nanoseconds, of calls that returned. */
struct dyntrace_tracepoint {
	int pid; /* 0: it waits for a program */
	const char *name;
	const char *location;
	const char *tracer;
	const char *state; /* enabled, disabled, waiting or refused */
	const char *why; /* reason for waiting or refused; else NULL */
	const char *placed; /* how: jump, pun, trap, ...; NULL: not placed */
	const char *module;
	const char *filter; /* NULL: none */
	uint64_t address;
	uint64_t hits;
	uint64_t lost;
	uint64_t calls;
	uint64_t total_ns, p50_ns, p90_ns, p99_ns, max_ns;
	/* Since version 2: */
	enum dyntrace_shape shape;
	const char *argument; /* of the tracer; NULL: none */
	const char *const *fields; /* of its events; ends with NULL */
	const char *const *contexts; /* likewise */
	uint64_t hits_per_second;
	uint64_t bytes; /* of generated code */
	uint64_t nested; /* hits inside probe functions, for which the tracer call calls none */
	const char *fault; /* how its probe function failed; NULL: it didn't */
};

struct dyntrace_symbol {
	uint64_t address; /* in the process, or in the file */
	uint64_t size;
	const char *module; /* its file's name */
	const char *name;
	const char *kind; /* function or ifunc */
	const char *source; /* of the name: .symtab, .dynsym, ... */
	const char *prototype; /* with DYNTRACE_PROTOTYPES; else NULL */
};

struct dyntrace_marker {
	const char *provider;
	const char *name;
	const char *arguments; /* in assembler syntax, "-4@%edi 8@-8(%rbp)"; may be "" */
	const char *module;
	uint64_t address;
	uint64_t semaphore; /* its address; 0: none */
};

size_t dyntrace_list_count(const struct dyntrace_list *list);
/* NULL: the index is too high, or it is a list of something else. */
const struct dyntrace_process *dyntrace_list_process(const struct dyntrace_list *list,
						     size_t index);
const struct dyntrace_tracepoint *dyntrace_list_tracepoint(const struct dyntrace_list *list,
							   size_t index);
const struct dyntrace_symbol *dyntrace_list_symbol(const struct dyntrace_list *list, size_t index);
const struct dyntrace_marker *dyntrace_list_marker(const struct dyntrace_list *list, size_t index);
const char *dyntrace_list_text(const struct dyntrace_list *list, size_t index);
void dyntrace_list_free(struct dyntrace_list *list); /* NULL is fine */

/* ---- processes ------------------------------------------------------------------------------- */

/* target: a pid in digits, or a name. Several processes of that name are an error without this
 * flag: */
#define DYNTRACE_ALL 1u /* every process of that name */

struct dyntrace_error *dyntrace_attach(struct dyntrace *dyntrace, const char *target,
				       unsigned int flags);
/* Removes its tracepoints and the agent; the process is as before. */
struct dyntrace_error *dyntrace_detach(struct dyntrace *dyntrace, const char *target,
				       unsigned int flags);
/* Every process with the agent: dyntrace_list_process. */
struct dyntrace_error *dyntrace_list_processes(struct dyntrace *dyntrace,
					       struct dyntrace_list **ret_list);
/* Loads a library of probe functions; a relative path starts at the caller's directory. */
struct dyntrace_error *dyntrace_load(struct dyntrace *dyntrace, const char *target,
				     const char *library, unsigned int flags);
/* Unloads it again; an error while tracepoints use it. */
struct dyntrace_error *dyntrace_unload(struct dyntrace *dyntrace, const char *target,
				       const char *library, unsigned int flags);

/* ---- names ----------------------------------------------------------------------------------- */

#define DYNTRACE_PROTOTYPES 8u /* with types from debug information: takes longer */

/*
 * Since version 2. List the functions, or the static markers (SDT), of a process and its libraries,
 * or of a file: target is a pid, a process's name, or a file, as for `dyntrace list-symbols`. glob
 * selects names, or PROVIDER:NAME; NULL: all. No matching function is an error; no matching marker
 * gives an empty list.
 *
 * These calls need no daemon, and dyntrace may be NULL; otherwise dyntrace_notes names libraries
 * that were left out. The command `dyntrace` reads the files with the caller's rights. It is found
 * near the library, or by $DYNTRACE_COMMAND.
 */
struct dyntrace_error *dyntrace_list_symbols(struct dyntrace *dyntrace, const char *target,
					     const char *glob, unsigned int flags,
					     struct dyntrace_list **ret_list);
struct dyntrace_error *dyntrace_list_markers(struct dyntrace *dyntrace, const char *target,
					     const char *glob, struct dyntrace_list **ret_list);

/* ---- tracepoints ----------------------------------------------------------------------------- */

#define DYNTRACE_WAIT 2u /* wait for the program, or for its library to be loaded */
#define DYNTRACE_DISABLED 4u /* place it disabled */

/*
 * Only size and location must be set:
 *	struct dyntrace_probe probe = { .size = sizeof(probe), .location = "processCommand" };
 */
struct dyntrace_probe {
	size_t size; /* sizeof(struct dyntrace_probe) */
	const char *location; /* SYMBOL[+OFFSET], ADDRESS or FILE:LINE, with @MODULE; or a glob */
	enum dyntrace_shape shape;
	const char *name; /* NULL: made from the location */
	const char *filter; /* "size > 4096"; NULL: every hit */
	const char *tracer; /* ctf, log, lttng, count or call; NULL: ctf */
	/* Of the tracer: directory or file, from the caller's directory, or LIBRARY:FUNCTION; NULL:
	 * none */
	const char *argument;
	/* Up to 32 more values: "tid", "backtrace", "var:req->path". Ends with NULL; NULL: none */
	const char *const *contexts;
	uint64_t every, first, rate; /* record every Nth hit; the first N; N per second; 0: all */
	uint64_t string_max; /* recorded bytes of a string, 8 to 1024; 0: 256 */
};

/*
 * Attaches if need be. ret_added (NULL: not wanted): pid and name of each new tracepoint
 * (dyntrace_list_tracepoint).
 */
struct dyntrace_error *dyntrace_add(struct dyntrace *dyntrace, const char *target,
				    const struct dyntrace_probe *probe, unsigned int flags,
				    struct dyntrace_list **ret_added);

/* name: a tracepoint of that target, or a glob. */
struct dyntrace_error *dyntrace_remove(struct dyntrace *dyntrace, const char *target,
				       const char *name, unsigned int flags);
struct dyntrace_error *dyntrace_enable(struct dyntrace *dyntrace, const char *target,
				       const char *name, unsigned int flags);
struct dyntrace_error *dyntrace_disable(struct dyntrace *dyntrace, const char *target,
					const char *name, unsigned int flags);
/* Also records this context from now on; type as in dyntrace_probe's contexts. */
struct dyntrace_error *dyntrace_add_context(struct dyntrace *dyntrace, const char *target,
					    const char *name, const char *type, unsigned int flags);
/* Since version 2. Records the context no more; type as it was given. */
struct dyntrace_error *dyntrace_remove_context(struct dyntrace *dyntrace, const char *target,
					       const char *name, const char *type,
					       unsigned int flags);
/* With current counts: dyntrace_list_tracepoint. */
struct dyntrace_error *dyntrace_list_tracepoints(struct dyntrace *dyntrace, const char *target,
						 unsigned int flags,
						 struct dyntrace_list **ret_list);

/* ---- recording ------------------------------------------------------------------------------- */

/* target NULL: every process that the user may trace. Between stop and start nothing is
 * recorded. */
struct dyntrace_error *dyntrace_start(struct dyntrace *dyntrace, const char *target,
				      unsigned int flags);
struct dyntrace_error *dyntrace_stop(struct dyntrace *dyntrace, const char *target,
				     unsigned int flags);
/* Writes all events from before the call to the traces' files. */
struct dyntrace_error *dyntrace_flush(struct dyntrace *dyntrace, const char *target,
				      unsigned int flags);
/* For a daemon with --mode overwrite. Lists the directories that it made: dyntrace_list_text. */
struct dyntrace_error *dyntrace_snapshot(struct dyntrace *dyntrace, const char *target,
					 unsigned int flags, struct dyntrace_list **ret_list);

/* ---- notifications --------------------------------------------------------------------------- */

struct dyntrace_watch;

struct dyntrace_event {
	uint64_t time_ns; /* since 1970 */
	int pid;
	const char *program;
	/*
	 * attached, detached, exited, failed, buffer-full, lost, module-loaded, module-unloaded,
	 * tracepoint-placed, tracepoint-gone, tracepoint-failed; more may come
	 */
	const char *name;
	const char *detail; /* NULL: none */
};

/*
 * Reports what happens to target (NULL: all) from now on. Uses a second connection to the same
 * daemon, so the handle may be closed.
 */
struct dyntrace_error *dyntrace_watch_open(struct dyntrace *dyntrace, const char *target,
					   struct dyntrace_watch **ret_watch);
void dyntrace_watch_close(struct dyntrace_watch *watch); /* NULL is fine */
/*
 * A descriptor to poll, not to read or close: readable when events may have come. Several may come
 * at once: before every poll, also the first, call dyntrace_watch_next with timeout 0 until it
 * gives none.
 */
int dyntrace_watch_fd(const struct dyntrace_watch *watch);
/*
 * The next event, valid until the next call; *ret_event is NULL if none came within timeout_ms (0:
 * don't wait, -1: forever) or a signal came. Fails when the daemon has ended, or has dropped the
 * watch because it wasn't read: events are never just missing.
 */
struct dyntrace_error *dyntrace_watch_next(struct dyntrace_watch *watch, int timeout_ms,
					   const struct dyntrace_event **ret_event);

#ifdef __cplusplus
}
#endif

#endif
