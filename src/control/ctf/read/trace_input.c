#include "trace_input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "control/base/cleanup.h"

#define OPEN_MAX_FILES 256 /* kept open; others are opened for each window */
#define FILES_MAX 65536
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

void trace_input_free(struct trace_input *input)
{
	if (!input)
		return;
	for (size_t i = 0; i < input->files.count; i++) {
		if (input->files.items[i].fd >= 0)
			close(input->files.items[i].fd);
		free(input->files.items[i].name);
	}
	vec_free(&input->files);
	vec_free(&input->runs);
	vec_free(&input->gaps.items);
	trace_layout_free(&input->layout);
	if (input->directory >= 0)
		close(input->directory);
	free(input);
}

static void input_freep(struct trace_input **input)
{
	trace_input_free(*input);
}

static struct error *no_memory(void)
{
	return error_new(ERROR_FAILED, "out of memory");
}

/* ---- metadata ------------------------------------------------------------------------------- */

static struct error *read_metadata(struct trace_input *input)
{
	_cleanup_close_ int fd = openat(input->directory, "metadata", OPEN_FLAGS);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > LAYOUT_TEXT_MAX)
		return error_new(ERROR_FAILED, "cannot read the metadata");
	size_t size = (size_t)st.st_size, done = 0;
	_cleanup_free_ char *text = malloc(size + 1);
	if (!text)
		return no_memory();
	while (done < size) {
		ssize_t n = read(fd, text + done, size - done);

		if (n <= 0)
			return error_new(ERROR_FAILED, "cannot read the metadata");
		done += (size_t)n;
	}
	text[size] = '\0';
	return trace_layout_parse(text, size, &input->layout);
}

/* ---- files ---------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct trace_file *)a)->name, ((const struct trace_file *)b)->name);
}

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static struct error *add_file(struct trace_input *input, const char *name)
{
	struct trace_file file = { .fd = openat(input->directory, name, OPEN_FLAGS),
				   .before = { .is_none = true },
				   .after = { .is_none = true } };
	struct stat st;

	if (file.fd < 0 && errno == ENOENT) /* removed meanwhile: the trace is bounded */
		return NULL;
	if (file.fd < 0 || fstat(file.fd, &st) || !S_ISREG(st.st_mode) ||
	    input->files.count >= FILES_MAX || !(file.name = strdup(name))) {
		if (file.fd >= 0)
			close(file.fd);
		return error_new(ERROR_FAILED, "cannot read '%s'", name);
	}
	file.size = (uint64_t)st.st_size;
	if (input->files.count >= OPEN_MAX_FILES || !file.size) {
		close(file.fd);
		file.fd = -1;
	}
	if (file.size && vec_push(&input->files, file))
		return NULL;
	if (file.fd >= 0)
		close(file.fd);
	free(file.name);
	return file.size ? no_memory() : NULL; /* nothing was written to it yet */
}

static struct error *find_files(struct trace_input *input)
{
	_cleanup_close_ int fd = fcntl(input->directory, F_DUPFD_CLOEXEC, 0);
	_cleanup_(closedirp) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir)
		return error_new(ERROR_FAILED, "cannot read the directory");
	take_fd(&fd); /* it is the DIR's */
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "metadata"))
			continue;
		if (strncmp(entry->d_name, "stream_", strlen("stream_")) != 0)
			return error_new(ERROR_FAILED, "'%s' is no file of dyntrace's",
					 entry->d_name);
		struct error *error = add_file(input, entry->d_name);
		if (error)
			return error;
	}
	if (input->files.count)
		qsort(input->files.items, input->files.count, sizeof(*input->files.items), by_name);
	return NULL;
}

/* ---- packets -------------------------------------------------------------------------------- */

/* Has the packet neither events nor losses? */
static bool is_empty(const struct metadata_packet *head, const struct cursor_before *before)
{
	return head->content_size == sizeof(*head) * 8 &&
	       (before->is_none || head->events_discarded == before->discarded);
}

/* Adds the packet to the last run, or begins another. */
static bool add_packet(struct trace_input *input, size_t file, uint64_t at,
		       const struct metadata_packet *head, const struct cursor_before *before,
		       bool joins)
{
	struct trace_run *last = input->runs.count ? vec_last(&input->runs) : NULL;

	if (is_empty(head, before))
		return true;
	if (joins && last && last->file == file && last->tid == head->tid &&
	    last->pid == head->pid) {
		last->to = at + head->packet_size / 8;
		last->end = head->timestamp_end;
		return true;
	}
	return vec_push(&input->runs, (struct trace_run){ .file = (uint32_t)file,
							  .tid = head->tid,
							  .pid = head->pid,
							  .from = at,
							  .to = at + head->packet_size / 8,
							  .begin = head->timestamp_begin,
							  .end = head->timestamp_end,
							  .before = *before });
}

static struct error *scan_file(struct trace_input *input, size_t index, bool joins)
{
	struct trace_file *file = &input->files.items[index];
	struct cursor_before before = { .is_none = true };
	_cleanup_close_ int own =
		file->fd < 0 ? openat(input->directory, file->name, OPEN_FLAGS) : -1;
	int fd = own >= 0 ? own : file->fd;
	struct metadata_packet head;

	for (uint64_t at = 0; at < file->size; at += head.packet_size / 8) {
		if (pread(fd, &head, sizeof(head), (off_t)at) != sizeof(head) ||
		    !packet_is_sound(&input->layout, &head, file->size - at) ||
		    !packet_follows(&before, &head))
			return error_new(ERROR_FAILED, "a packet of '%s' is wrong, at byte %llu",
					 file->name, (unsigned long long)at);
		if (!add_packet(input, index, at, &head, &before, joins) ||
		    !packet_gaps_note(&input->gaps, &before, &head))
			return no_memory();
		if (!is_empty(&head, &before)) {
			file->solid = at + head.packet_size / 8;
			file->after = packet_after(&head);
		}
		before = packet_after(&head);
	}
	return NULL;
}

static int by_thread(const void *a, const void *b)
{
	const struct trace_run *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return x->file != y->file ? (x->file < y->file ? -1 : 1) : x->from < y->from ? -1 : 1;
}

/* Would a thread's runs, one after the other, be out of order? */
static bool has_overlaps(const struct trace_input *input)
{
	for (size_t i = 1; i < input->runs.count; i++) {
		const struct trace_run *a = &input->runs.items[i - 1], *b = a + 1;

		if (a->pid == b->pid && a->tid == b->tid && b->begin < a->end)
			return true;
	}
	return false;
}

/* Long runs take little memory. A thread that changed between files may need one per packet. */
static struct error *scan(struct trace_input *input)
{
	for (int joins = 1; joins >= 0; joins--) {
		input->runs.count = input->gaps.items.count = 0;
		input->gaps.packets = 0;
		for (size_t i = 0; i < input->files.count; i++) {
			struct error *error = scan_file(input, i, joins);

			if (error)
				return error;
		}
		if (input->runs.count)
			qsort(input->runs.items, input->runs.count, sizeof(*input->runs.items),
			      by_thread);
		input->has_overlaps = has_overlaps(input);
		if (!input->has_overlaps)
			break;
	}
	packet_gaps_join(&input->gaps);
	for (size_t i = 0; i < input->files.count; i++)
		input->size += input->files.items[i].size;
	return NULL;
}

struct error *trace_input_open(const char *path, struct trace_input **ret_input)
{
	_cleanup_(input_freep) struct trace_input *input = calloc(1, sizeof(*input));

	if (!input)
		return no_memory();
	input->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (input->directory < 0)
		return error_errno(errno, "cannot open '%s'", path);
	struct error *error = read_metadata(input);
	if (!error)
		error = find_files(input);
	if (!error)
		error = scan(input);
	if (error)
		return error_wrap(error, "%s", path);
	*ret_input = take_ptr(&input);
	return NULL;
}

/* ---- cursors -------------------------------------------------------------------------------- */

static void point(const struct trace_input *input, size_t index, struct packet_cursor *cursor)
{
	const struct trace_file *file = &input->files.items[index];

	cursor->layout = &input->layout;
	cursor->directory = input->directory;
	cursor->fd = file->fd;
	cursor->name = file->name;
}

bool trace_input_file(const struct trace_input *input, size_t file,
		      struct packet_cursor *ret_cursor)
{
	struct packet_cursor cursor = { 0 };

	if (!packet_cursor_begin(&cursor))
		return false;
	point(input, file, &cursor);
	packet_cursor_move(&cursor, input->files.items[file].from, input->files.items[file].size,
			   &input->files.items[file].before);
	*ret_cursor = cursor;
	return true;
}

bool trace_input_is_new_thread(const struct trace_input *input, size_t run)
{
	const struct trace_run *one = &input->runs.items[run], *before = one - 1;

	return !run || one->tid != before->tid || one->pid != before->pid;
}

void trace_input_run(const struct trace_input *input, size_t run, struct packet_cursor *cursor)
{
	const struct trace_run *r = &input->runs.items[run];

	point(input, r->file, cursor);
	packet_cursor_move(cursor, r->from, r->to, &r->before);
}
