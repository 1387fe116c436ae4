#include "sync_tracer.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "control/tracers/code/foreign_code.h"
#include "control/tracers/loading/loading.h"
#include "sync_line.h"

#define TTY_FIRST 4 /* major numbers of terminals: 4, 5 and 136 to 143 */
#define TTY_LAST 5
#define PTS_FIRST 136
#define PTS_LAST 143

struct sync_tracer {
	struct dt_lines *lines; /* NULL: not mapped yet */
	taddr lines_at; /* of `lines` in the target */
	taddr gate;
	uint32_t used;
	VEC(uint32_t) free_rows;
	uint64_t left_out[DT_LINE_REASONS]; /* as far as looked */
	int failed; /* errno of the last DT_LINE_FAILED */
};

/* A tracepoint's lines. */
struct sync_use {
	struct dt_line *lines[2]; /* entry and exit; owned */
	uint32_t sizes[2];
	uint32_t row; /* of dt_lines.rows */
	bool has_row;
	uint64_t seen[2][DT_LINE_REASONS]; /* left out, as far as looked */
};

/* ---- the program's output -------------------------------------------------------------------- */

static bool is_terminal(const struct stat *file)
{
	unsigned number = major(file->st_rdev);

	return S_ISCHR(file->st_mode) && ((number >= TTY_FIRST && number <= TTY_LAST) ||
					  (number >= PTS_FIRST && number <= PTS_LAST));
}

/* Notes which file the descriptor is (I12). */
static void note_output(struct dt_line *line, int fd, const struct stat *file)
{
	line->fd = fd;
	line->device = file->st_dev;
	line->inode = file->st_ino;
	line->way = S_ISFIFO(file->st_mode) ? DT_LINE_PIPE :
		    S_ISSOCK(file->st_mode) ? DT_LINE_SOCKET :
		    is_terminal(file)	    ? DT_LINE_TERMINAL :
					      DT_LINE_PLAIN;
}

static bool look_at_descriptor(const struct proc *proc, int fd, struct stat *ret_file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", proc->pid, fd);
	return stat(path, ret_file) == 0;
}

static struct error *use_standard_output(const struct proc *proc, struct dt_line *line)
{
	struct stat file;

	if (look_at_descriptor(proc, STDOUT_FILENO, &file)) {
		note_output(line, STDOUT_FILENO, &file);
		return NULL;
	}
	if (errno != ENOENT)
		return error_errno(errno, "cannot look at the standard output of process %d",
				   proc->pid);
	return error_new(ERROR_REFUSED,
			 "process %d has no standard output (its descriptor 1 is closed): name a "
			 "file, log:FILE, without --sync",
			 proc->pid);
}

/* The link's own mode tells how the file was opened. */
static bool is_written(const struct proc *proc, int fd)
{
	char path[64];
	struct stat link;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", proc->pid, fd);
	return lstat(path, &link) == 0 && (link.st_mode & S_IWUSR);
}

/* Finds the descriptor by which the program itself writes to the file: none is opened for a line.
 * A file that isn't there and one that the program hasn't opened make no difference, since the
 * daemon sees more files than its clients. */
static struct error *use_file(const struct proc *proc, const char *name, struct dt_line *line)
{
	struct stat wanted, file;
	char path[64];
	int found = -1;

	snprintf(path, sizeof(path), "/proc/%d/fd", proc->pid);
	DIR *folder = stat(name, &wanted) ? NULL : opendir(path);
	for (struct dirent *entry; folder && (entry = readdir(folder));) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && (found < 0 || fd < found) &&
		    look_at_descriptor(proc, fd, &file) && file.st_dev == wanted.st_dev &&
		    file.st_ino == wanted.st_ino && is_written(proc, fd)) {
			note_output(line, fd, &file);
			found = fd;
		}
	}
	if (folder)
		closedir(folder);
	return found >= 0 ? NULL :
			    error_new(ERROR_REFUSED,
				      "process %d doesn't have '%s' open for writing: with --sync, "
				      "lines go only where the program itself writes (leave --sync "
				      "out: then dyntrace writes to the file)",
				      proc->pid, name);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int32_t utc_offset(void)
{
	time_t now = time(NULL);
	struct tm local;

	return localtime_r(&now, &local) ? (int32_t)local.tm_gmtoff : 0;
}

/* (H4) The values lie on the thread's stack for the line: goroutines have no room for them. */
static struct error *check_place(struct session *session, const struct tracepoint *tracepoint)
{
	struct module *module = tracepoint->probe.place.module;
	struct symtab *symtab;

	if (!module || module->is_vdso)
		return NULL;
	struct error *error = module_symtab(session->proc, module, &symtab);
	if (!error && symtab_is_go(symtab))
		error = error_new(ERROR_REFUSED, "stacks of goroutines have no room for a line at "
						 "the hit (leave --sync out)");
	return error;
}

static struct error *make_line(struct session *session, struct tracepoint *tracepoint, size_t which)
{
	struct sync_use *use = tracepoint->sync;
	uint32_t id = tracepoint->probe.event.id + (uint32_t)which;

	assert(id < session->types->count);
	struct error *error = sync_line_make(&session->types->items[id], session->proc->comm,
					     &use->lines[which], &use->sizes[which]);
	if (error)
		return error;
	use->lines[which]->utc_offset = utc_offset();
	const char *file = tracepoint->request->spec.tracer_argument;
	return file ? use_file(session->proc, file, use->lines[which]) :
		      use_standard_output(session->proc, use->lines[which]);
}

static struct error *reckon_one(struct session *session, struct tracepoint *tracepoint)
{
	struct tramp_event *event = &tracepoint->probe.event;
	struct error *error = check_place(session, tracepoint);

	tracepoint->sync = error ? NULL : calloc(1, sizeof(*tracepoint->sync));
	if (!error && !tracepoint->sync)
		error = error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i <= (size_t)event->exit && !error; i++)
		error = make_line(session, tracepoint, i);
	if (error)
		return error;
	event->foreign.is_wanted = true;
	event->foreign.data_size = tracepoint->sync->sizes[0];
	event->foreign.exit_data_size = tracepoint->sync->sizes[1];
	return NULL;
}

struct error *sync_tracer_reckon(struct session *session, const struct tracepoint_list *list)
{
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (tracepoint_is(tracepoint, TRACER_SYNC) && tracepoint->has_type &&
		    !tracepoint->sync)
			error = reckon_one(session, tracepoint);
	}
	return error_wrap(error, "log --sync");
}

/* ---- memory in the target -------------------------------------------------------------------- */

struct error *sync_tracer_map(struct session *session, struct stop *stop)
{
	struct sync_tracer *sync = session->sync;
	struct load_paper *paper = &session->loading->paper;
	uint32_t at = LOAD_PART_AT(LOAD_GATE_SYNC);
	void *lines;

	if (sync->lines)
		return NULL;
	struct error *error = load_map_paper(paper, stop, session->agent);
	if (error)
		return error;
	taddr inside = taddr_add(session->agent->state_at, offsetof(struct dt_state, foreign));
	if (!foreign_write_gate(FOREIGN_NOTHING, inside, paper->here + at, FOREIGN_GATE_ROOM))
		return error_new(ERROR_FAILED, "the code that saves registers doesn't fit its room");
	sync->gate = taddr_add(paper->there, at + FOREIGN_GATE_ENTRY);
	error = agent_share(stop, session->agent, "dyntrace-lines", sizeof(struct dt_lines), &lines,
			    &sync->lines_at, NULL);
	if (!error)
		sync->lines = lines;
	return error;
}

static struct error *take_row(struct sync_tracer *sync, struct sync_use *use)
{
	if (sync->free_rows.count)
		use->row = sync->free_rows.items[--sync->free_rows.count];
	else if (sync->used < DT_LINES_MAX)
		use->row = sync->used++;
	else
		return error_new(ERROR_FAILED, "more than %u tracepoints of log --sync (remove some)",
				 DT_LINES_MAX);
	use->has_row = true;
	memset(sync->lines->rows[use->row], 0, sizeof(sync->lines->rows[use->row]));
	return NULL;
}

static struct error *prepare_one(struct session *session, struct tracepoint *tracepoint)
{
	const struct sync_tracer *sync = session->sync;
	struct sync_use *use = tracepoint->sync;
	struct tramp_foreign *foreign = &tracepoint->probe.event.foreign;
	const uint32_t fenced = DT_NO_LINES | DT_NO_SYSCALLS;
	struct error *error = NULL;

	assert(use && sync->lines);
	if (session->agent->control->flags & fenced)
		error = error_new(ERROR_REFUSED,
				  "its filter of system calls (seccomp) forbids to write a line at "
				  "the hit%s%s (leave --sync out: then dyntrace writes the lines)",
				  session->no_lines[0] ? ": it " : "", session->no_lines);
	if (!error)
		error = take_row(session->sync, use);
	if (error)
		return error;
	taddr rows = taddr_add(sync->lines_at, (int64_t)offsetof(struct dt_lines, rows[use->row]));
	for (size_t i = 0; i < 2 && use->lines[i]; i++) {
		use->lines[i]->control = session->agent->control_at.v;
		use->lines[i]->output = sync->lines_at.v + offsetof(struct dt_lines, output);
		use->lines[i]->shared = rows.v + i * sizeof(struct dt_line_shared);
	}
	foreign->function = session->agent->line_hit_at;
	foreign->gate = sync->gate;
	foreign->data = use->lines[0];
	foreign->exit_data = use->lines[1];
	foreign->enabled = foreign->exit_enabled =
		taddr_add(rows, offsetof(struct dt_line_shared, enabled));
	foreign->address = tracepoint->probe.place.address;
	foreign->own_only = !session->options.follow_fork;
	return NULL;
}

struct error *sync_tracer_prepare(struct session *session, const struct tracepoint_list *list)
{
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		if (list->items[i]->sync && !list->items[i]->sync->has_row)
			error = prepare_one(session, list->items[i]);
	}
	return error_wrap(error, "log --sync");
}

void sync_tracer_enable(struct session *session, const struct tracepoint_list *list, bool enable)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct sync_use *use = list->items[i]->sync;

		if (use && use->has_row)
			__atomic_store_n(&session->sync->lines->rows[use->row][0].enabled, enable,
					 __ATOMIC_RELEASE);
	}
}

/* ---- reports --------------------------------------------------------------------------------- */

static void look_at(struct session *session, struct tracepoint *tracepoint)
{
	struct sync_tracer *sync = session->sync;
	struct sync_use *use = tracepoint->sync;

	if (!use || !use->has_row)
		return;
	for (uint32_t i = 0; i <= tracepoint->probe.event.exit; i++) {
		const struct dt_line_shared *shared = &sync->lines->rows[use->row][i];
		uint32_t error_number = __atomic_load_n(&shared->error_number, __ATOMIC_RELAXED);

		for (size_t reason = 0; reason < DT_LINE_REASONS; reason++) {
			uint64_t now =
				__atomic_load_n(&shared->left_out[reason], __ATOMIC_RELAXED);
			uint64_t more = now - use->seen[i][reason];

			use->seen[i][reason] = now;
			sync->left_out[reason] += more;
			session->types->items[tracepoint->probe.event.id + i].left_out += more;
		}
		if (error_number)
			sync->failed = (int)error_number;
	}
}

void sync_tracer_look(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count && session->sync->lines; i++)
		look_at(session, session->tracepoints.items[i]);
}

uint64_t sync_tracer_left_out(const struct session *session, const char **ret_why)
{
	static const char *const whys[] = {
		[DT_LINE_FULL] = "the output was not read in time",
		[DT_LINE_ELSEWHERE] = "the program closed its descriptor, or it leads elsewhere "
				      "since tracing began (add the tracepoint again)",
		[DT_LINE_UNREAD] = "nobody reads its output any more",
		[DT_LINE_FENCED] = "its filter of system calls (seccomp) forbids to write a line at "
				   "the hit (leave --sync out)",
		[DT_LINE_ALONE] = "dyntrace was killed",
	};
	const struct sync_tracer *sync = session->sync;
	uint64_t sum = 0, most = 0;

	for (size_t i = 0; i < DT_LINE_REASONS; i++) {
		sum += sync->left_out[i];
		if (sync->left_out[i] <= most)
			continue;
		most = sync->left_out[i];
		*ret_why = i == DT_LINE_FAILED ? strerror(sync->failed) : whys[i];
	}
	return sum;
}

/* ---- lifetime -------------------------------------------------------------------------------- */

void sync_tracer_free_use(struct session *session, struct tracepoint *tracepoint)
{
	struct sync_use *use = tracepoint->sync;

	if (!use)
		return;
	/* Return stubs lead to the code of a tracepoint with exits for life (R1): its row stays
	 * taken. */
	if (use->has_row && !tracepoint->probe.event.exit)
		vec_push(&session->sync->free_rows, use->row);
	free(use->lines[0]);
	free(use->lines[1]);
	free(use);
}

bool sync_tracer_create(struct session *session)
{
	session->sync = calloc(1, sizeof(*session->sync));
	return session->sync != NULL;
}

void sync_tracer_free(struct session *session)
{
	if (session->sync)
		vec_free(&session->sync->free_rows);
	free(session->sync);
}
