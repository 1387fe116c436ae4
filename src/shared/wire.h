/*
 * wire.h - messages between dyntraced, its clients, its workers and linked agents.
 *
 * A stream socket carries messages: a header, then `length` bytes of attributes, each a struct
 * wire_attribute and `length` bytes. Numbers are 8 bytes; texts end with their only NUL; all in the
 * byte order of the machine, which both ends share. Tags may repeat; receivers skip unknown tags.
 * The answer to a message of another version is a WIRE_REPLY that says so, in the sender's version.
 *
 * A request has any sequence number, and its answers have the same: any number of WIRE_ITEM and
 * WIRE_NOTE, then one WIRE_REPLY, which has WIRE_ERROR_TEXT if the request failed. WIRE_EVENT
 * answers no request.
 *
 * Freestanding: the agent sends WIRE_REGISTER. src/control/wire has the code for all others.
 */
#ifndef DYNTRACE_WIRE_H
#define DYNTRACE_WIRE_H

#include <stdint.h>

#define WIRE_MAGIC 0x74795964u /* "dYyt" */
#define WIRE_VERSION 1

/* Bytes of the largest message from a client, and of the largest message at all. */
#define WIRE_REQUEST_MAX (64u << 10)
#define WIRE_MESSAGE_MAX (1u << 20)
/* Per WIRE_ADD. */
#define WIRE_CONTEXTS_MAX 32
/* Per process. */
#define WIRE_TRACEPOINTS_MAX 65536

/* The default socket: $DYNTRACE_SOCKET; for root WIRE_SOCKET_ROOT; for other users in
 * $XDG_RUNTIME_DIR. */
#define WIRE_SOCKET_ENV "DYNTRACE_SOCKET"
#define WIRE_SOCKET_ROOT "/run/dyntrace/dyntraced.sock"
#define WIRE_SOCKET_USER "dyntrace.sock"
/* Suffix of the socket that agents of every user may connect to. It accepts only WIRE_REGISTER. */
#define WIRE_SOCKET_AGENTS ".agents"

struct wire_header {
	uint32_t magic;
	uint16_t version;
	uint16_t kind; /* enum wire_kind */
	uint32_t sequence;
	uint32_t length; /* of the attributes */
};

struct wire_attribute {
	uint16_t tag; /* enum wire_tag */
	uint16_t zero;
	uint32_t length;
};

/* Name in C, name for people. */
#define WIRE_KINDS(X)                       \
	X(WIRE_STATUS, "status")            \
	X(WIRE_ATTACH, "attach")            \
	X(WIRE_DETACH, "detach")            \
	X(WIRE_PROCESSES, "list-processes") \
	X(WIRE_TRACEPOINTS, "list-tracepoints") \
	X(WIRE_ADD, "add")                  \
	X(WIRE_REMOVE, "rm")                \
	X(WIRE_ENABLE, "enable")            \
	X(WIRE_DISABLE, "disable")          \
	X(WIRE_CONTEXT, "add-context")      \
	X(WIRE_START, "start")              \
	X(WIRE_STOP, "stop")                \
	X(WIRE_FLUSH, "flush")              \
	X(WIRE_SNAPSHOT, "snapshot")        \
	X(WIRE_LOAD, "load")                \
	X(WIRE_WATCH, "watch")              \
	X(WIRE_REGISTER, "register")        \
	X(WIRE_REPLY, "reply")              \
	X(WIRE_ITEM, "item")                \
	X(WIRE_NOTE, "note")                \
	X(WIRE_EVENT, "event")              \
	X(WIRE_CONFIGURE, "configure")      \
	X(WIRE_UNLOAD, "unload")            \
	X(WIRE_SETTLE, "settle")            \
	X(WIRE_SYMBOLS, "list-symbols")     \
	X(WIRE_MARKERS, "list-markers")     \
	X(WIRE_NO_CONTEXT, "remove-context")

enum wire_kind {
	WIRE_NOTHING,
#define X(name, text) name,
	WIRE_KINDS(X)
#undef X
	WIRE_KIND_COUNT,
};

enum wire_type {
	WIRE_NUMBER,
	WIRE_TEXT,
};

/* Name in C, type. */
#define WIRE_TAGS(X)                                                                  \
	X(WIRE_TARGET, WIRE_TEXT) /* as the user named it */                          \
	X(WIRE_ALL, WIRE_NUMBER) /* every process of that name */                     \
	X(WIRE_PID, WIRE_NUMBER)                                                      \
	X(WIRE_START_TIME, WIRE_NUMBER) /* of a process, in clock ticks after boot */ \
	X(WIRE_PROGRAM, WIRE_TEXT) /* its name */                                     \
	X(WIRE_USER, WIRE_TEXT)                                                       \
	X(WIRE_UID, WIRE_NUMBER)                                                      \
	X(WIRE_GID, WIRE_NUMBER)                                                      \
	X(WIRE_GROUP, WIRE_NUMBER)                                                    \
	X(WIRE_LOADED, WIRE_TEXT) /* how the agent came: injected, linked, preloaded */ \
	X(WIRE_NAME, WIRE_TEXT) /* of a tracepoint, or a glob */                      \
	X(WIRE_LOCATION, WIRE_TEXT)                                                   \
	X(WIRE_SHAPE, WIRE_NUMBER) /* enum wire_shape */                              \
	X(WIRE_FILTER, WIRE_TEXT)                                                     \
	X(WIRE_CONTEXT_TYPE, WIRE_TEXT)                                               \
	X(WIRE_TRACER, WIRE_TEXT)                                                     \
	X(WIRE_ARGUMENT, WIRE_TEXT) /* of the tracer */                               \
	X(WIRE_EVERY, WIRE_NUMBER)                                                    \
	X(WIRE_FIRST, WIRE_NUMBER)                                                    \
	X(WIRE_RATE, WIRE_NUMBER)                                                     \
	X(WIRE_STRING_MAX, WIRE_NUMBER)                                               \
	X(WIRE_WAIT, WIRE_NUMBER)                                                     \
	X(WIRE_DISABLED, WIRE_NUMBER)                                                 \
	X(WIRE_OUTPUT, WIRE_TEXT) /* a directory */                                   \
	X(WIRE_LIBRARY, WIRE_TEXT)                                                    \
	X(WIRE_ERROR_TEXT, WIRE_TEXT)                                                 \
	X(WIRE_ERROR_KIND, WIRE_NUMBER) /* enum error_kind */                         \
	X(WIRE_NOTE_TEXT, WIRE_TEXT)                                                  \
	X(WIRE_EVENT_NAME, WIRE_TEXT) /* attached, exited, ... */                     \
	X(WIRE_DETAIL, WIRE_TEXT)                                                     \
	X(WIRE_TIME, WIRE_NUMBER) /* ns after 1970 */                                 \
	X(WIRE_STATE, WIRE_TEXT)                                                      \
	X(WIRE_ADDRESS, WIRE_NUMBER)                                                  \
	X(WIRE_MODULE, WIRE_TEXT)                                                     \
	X(WIRE_HOW, WIRE_TEXT) /* placed */                                           \
	X(WIRE_FIELD, WIRE_TEXT)                                                      \
	X(WIRE_HITS, WIRE_NUMBER)                                                     \
	X(WIRE_LOST, WIRE_NUMBER)                                                     \
	X(WIRE_BYTES, WIRE_NUMBER)                                                    \
	X(WIRE_TRACEPOINT_COUNT, WIRE_NUMBER)                                         \
	X(WIRE_TARGET_COUNT, WIRE_NUMBER)                                             \
	X(WIRE_WAITING_COUNT, WIRE_NUMBER)                                            \
	X(WIRE_CLIENT_COUNT, WIRE_NUMBER)                                             \
	X(WIRE_RECORDING, WIRE_NUMBER)                                                \
	X(WIRE_PROGRAM_VERSION, WIRE_TEXT)                                            \
	X(WIRE_SOCKET_PATH, WIRE_TEXT)                                                \
	X(WIRE_BUFFER_SIZE, WIRE_NUMBER)                                              \
	X(WIRE_MODE, WIRE_NUMBER) /* enum session_mode */                             \
	X(WIRE_HIT_RATE, WIRE_NUMBER) /* per second */                                \
	X(WIRE_CALLS, WIRE_NUMBER) /* that returned; their durations in ns: */        \
	X(WIRE_TOTAL, WIRE_NUMBER)                                                    \
	X(WIRE_P50, WIRE_NUMBER)                                                      \
	X(WIRE_P90, WIRE_NUMBER)                                                      \
	X(WIRE_P99, WIRE_NUMBER)                                                      \
	X(WIRE_LONGEST, WIRE_NUMBER)                                                  \
	X(WIRE_NESTED, WIRE_NUMBER) /* hits in functions of the tracer call */        \
	X(WIRE_FAULT, WIRE_TEXT) /* signal of its function */                         \
	X(WIRE_SYMBOL_KIND, WIRE_TEXT) /* function, ifunc */                          \
	X(WIRE_SOURCE, WIRE_TEXT) /* where its name was found */                      \
	X(WIRE_PROTOTYPE, WIRE_TEXT)                                                  \
	X(WIRE_PROVIDER, WIRE_TEXT) /* of a marker */                                 \
	X(WIRE_SEMAPHORE, WIRE_NUMBER) /* its address; 0: none */ \
	X(WIRE_GUISE, WIRE_TEXT) /* rights and program of a process (proc_guise.h) */ \
	X(WIRE_GENERATION, WIRE_NUMBER) /* changes with execve; 0: unknown */         \
	X(WIRE_COPY, WIRE_NUMBER) /* where one of several copies of a module is loaded */ \
	X(WIRE_MADE, WIRE_TEXT) /* journals: name of a tracepoint that was made */    \
	X(WIRE_ASKER, WIRE_NUMBER) /* journals: uid of who asked for the target */    \
	X(WIRE_WORKER, WIRE_NUMBER) /* journals: pid */                               \
	X(WIRE_WORKER_START, WIRE_NUMBER) /* journals: its start time */              \
	X(WIRE_SELF, WIRE_NUMBER) /* durations less those of the calls inside */      \
	X(WIRE_DURATIONS, WIRE_NUMBER) /* of all calls, also inside the same function's */ \
	X(WIRE_BY, WIRE_TEXT) /* counts by key (control/event/question.h): the keys */ \
	X(WIRE_OF, WIRE_TEXT) /* the value */                                         \
	X(WIRE_KEYS, WIRE_NUMBER) /* most different keys */                           \
	X(WIRE_ROWS, WIRE_NUMBER) /* of a list: behind each tracepoint an item per key */ \
	X(WIRE_STATIC, WIRE_NUMBER) /* of a list: LTTng's own tracepoints, too; of an item: one */ \
	X(WIRE_RESET, WIRE_NUMBER) /* of a list with rows: they begin at 0 again */   \
	X(WIRE_ROW, WIRE_NUMBER) /* this item is such a row; enum wire_row */         \
	X(WIRE_VALUES, WIRE_NUMBER) /* of a row; enum wire_values */                  \
	X(WIRE_KEY, WIRE_TEXT) /* one per key */                                      \
	X(WIRE_KEY_NUMBERS, WIRE_NUMBER) /* bit n: key n is a number */               \
	X(WIRE_SHORTEST, WIRE_NUMBER)                                                 \
	X(WIRE_BUCKET, WIRE_NUMBER) /* a value, as int64_t, then ... */               \
	X(WIRE_BUCKET_COUNT, WIRE_NUMBER) /* ... how often it, or one near it, came */ \
	X(WIRE_EXITS_LOST, WIRE_NUMBER)                                               \
	X(WIRE_PROTOTYPES, WIRE_TEXT) /* C declarations */                            \
	X(WIRE_FLOATS, WIRE_NUMBER) /* bytes of one: 4, 8 */                           \
	X(WIRE_MAX_SIZE, WIRE_NUMBER) /* limits of a trace (control/ctf/writer.h) */  \
	X(WIRE_MAX_FILES, WIRE_NUMBER)                                                \
	X(WIRE_ROTATE, WIRE_NUMBER) /* ns */                                          \
	X(WIRE_OVERHEAD, WIRE_NUMBER) /* a budget (session/budget), in millionths */  \
	X(WIRE_LEVEL, WIRE_NUMBER) /* of a tracepoint with a budget; enum tramp_switch */ \
	X(WIRE_COUNTED, WIRE_NUMBER) /* hits that were only counted */                \
	X(WIRE_OFF_NS, WIRE_NUMBER) /* time without a count */                        \
	X(WIRE_COST, WIRE_NUMBER) /* of its hits, by estimate; ns; of a list: one item, the sum */ \
	X(WIRE_SNAPSHOT_WHEN, WIRE_TEXT) /* an expression: its hits ask for one */    \
	X(WIRE_SNAPSHOT_EVERY, WIRE_NUMBER) /* ns between two of these, at least */   \
	X(WIRE_SNAPSHOTS_KEPT, WIRE_NUMBER) /* of these */                            \
	X(WIRE_LAST, WIRE_NUMBER) /* ns before now that a snapshot has; absent: all */ \
	X(WIRE_MADE_TRIGGER, WIRE_TEXT) /* journals: name of a trigger that was made */  \
	X(WIRE_SYNC, WIRE_NUMBER) /* tracer log: at the hit */                        \
	X(WIRE_DEREF, WIRE_NUMBER) /* levels of pointers */                           \
	X(WIRE_PROFILE, WIRE_TEXT) /* FILE LOC: of a profile of the daemon's */       \
	X(WIRE_PROFILE_COUNT, WIRE_NUMBER) /* files */                                \
	X(WIRE_PROFILE_ERROR, WIRE_TEXT) /* of a file that isn't used */              \
	X(WIRE_UNSEEN, WIRE_NUMBER) /* hits while it was off, by estimate */          \
	X(WIRE_READER_NS, WIRE_NUMBER) /* CPU time of the worker that lists it */     \
	X(WIRE_COST_MEASURED, WIRE_NUMBER) /* WIRE_COST: in this process; else at least */

enum wire_tag {
	WIRE_NO_TAG,
#define X(name, type) name,
	WIRE_TAGS(X)
#undef X
	WIRE_TAG_COUNT,
};

/* Different keys per tracepoint. */
#define WIRE_KEYS_MAX 65536

enum wire_row {
	WIRE_ROW_NONE, /* the item is a tracepoint */
	WIRE_ROW_KEY,
	WIRE_ROW_OTHER, /* keys for which no room was left */
};

enum wire_values {
	WIRE_VALUES_NONE, /* hits are counted, and nothing else */
	WIRE_VALUES_NUMBERS,
	WIRE_VALUES_TIMES, /* in ns */
};

/* What a tracepoint records. */
enum wire_shape {
	WIRE_BARE, /* the hit */
	WIRE_ENTRY, /* a function's entry, with its arguments */
	WIRE_FUNCTION, /* entry and exit */
};

#endif
