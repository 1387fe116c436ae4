/*
 * reopen.c - go on with a trace whose controller was killed.
 *
 * All that is needed is in the trace itself: where each lane ends and what its last packet said. Only what events look
 * like isn't in a form that is easily read; so it is noted in a file beside the metadata, whose name begins
 * with a dot (readers of traces don't look at those), and which goes away when the trace is closed:
 *
 *	event ID SIZE VARIABLE FIELDS		and for each of its fields:
 *	TYPE SIZE OFFSET COUNT
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../shared/layout.h"
#include "../base/cleanup.h"
#include "metadata.h"
#include "writer_state.h"

#define TYPES_FILE ".events"
#define LANES_MAX 65536
#define FIELDS_MAX 4096

/* ---- what events look like ------------------------------------------------------------------ */

static void print_type(FILE *file, const struct event_type *type)
{
	fprintf(file, "event %u %u %d %zu\n", type->id, type->size, type->is_variable, type->field_count);
	for (size_t i = 0; i < type->field_count; i++) {
		const struct event_field *field = &type->fields[i];

		fprintf(file, "%d %u %u %u\n", (int)field->type, field->size, field->offset, field->count);
	}
}

struct error *reopen_note_types(const struct trace_writer *writer)
{
	struct trace_dir *dir = writer->dir;
	int fd = dir->open(dir, TYPES_FILE ".new", true);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file)
		return error_errno(fd < 0 ? -fd : errno, "cannot write '%s'", TYPES_FILE);
	for (size_t i = 0; i < writer->types->count; i++)
		print_type(file, &writer->types->items[i]);
	bool failed = ferror(file);
	failed |= fclose(file) != 0;
	int number = failed ? errno : -dir->rename(dir, TYPES_FILE ".new", TYPES_FILE);
	if (!number)
		return NULL;
	dir->remove(dir, TYPES_FILE ".new");
	return error_errno(number, "cannot write '%s'", TYPES_FILE);
}

void reopen_forget_types(const struct trace_writer *writer)
{
	writer->dir->remove(writer->dir, TYPES_FILE);
}

static bool scan_fields(FILE *file, struct event_type *type)
{
	for (size_t i = 0; i < type->field_count; i++) {
		unsigned kind, size, offset, count;

		if (fscanf(file, "%u %u %u %u", &kind, &size, &offset, &count) != 4 || kind > FIELD_END ||
		    size > 8 || offset > DT_EVENT_SIZE_MAX || count > DT_EVENT_SIZE_MAX)
			return false;
		type->fields[i].type = (enum field_type)kind;
		type->fields[i].size = (uint8_t)size;
		type->fields[i].offset = (uint16_t)offset;
		type->fields[i].count = (uint16_t)count;
	}
	return true;
}

static bool scan_type(FILE *file, struct event_types *types)
{
	struct event_type type = { 0 };
	int variable;

	if (fscanf(file, " event %u %u %d %zu", &type.id, &type.size, &variable, &type.field_count) != 4 ||
	    type.id != types->count || type.id >= DT_EVENTS_MAX || type.field_count > FIELDS_MAX)
		return false;
	type.is_variable = variable;
	type.fields = calloc(type.field_count + 1, sizeof(*type.fields));
	if (!type.fields || !scan_fields(file, &type) || !vec_push(types, type)) {
		free(type.fields);
		return false;
	}
	return true;
}

static struct error *read_types(const struct trace_writer *writer, struct event_types *types)
{
	int fd = writer->dir->open(writer->dir, TYPES_FILE, false);
	_cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (!file)
		return error_errno(fd < 0 ? -fd : errno, "nothing in '%s' says what its events look like", writer->directory);
	while (scan_type(file, types))
		;
	if (!feof(file))
		return error_new(ERROR_FAILED, "'%s/%s' is damaged", writer->directory, TYPES_FILE);
	return NULL;
}

/* ---- lanes ---------------------------------------------------------------------------------- */

/* Is a whole packet of this trace there? */
static bool is_packet(const struct trace_writer *writer, const struct metadata_packet *head, uint64_t left)
{
	return head->magic == METADATA_MAGIC && !memcmp(head->uuid, writer->uuid, sizeof(head->uuid)) &&
	       head->packet_size % 64 == 0 && head->content_size <= head->packet_size &&
	       head->content_size / 8 >= sizeof(*head) && head->packet_size / 8 <= left &&
	       head->timestamp_begin <= head->timestamp_end;
}

static void read_packet(struct writer_lane *lane, const struct metadata_packet *head, bool is_last,
			writer_seen_fn seen, void *context)
{
	struct packet_seen packet = {
		.begin = head->timestamp_begin,
		.end = head->timestamp_end,
		.inner_tid = head->vtid,
		.inner_pid = head->vpid,
	};

	/* an empty packet at the end that tells nothing is the filler */
	lane->filler = 0;
	if (is_last && head->content_size == sizeof(*head) * 8 && head->events_discarded == lane->discarded) {
		lane->filler = head->packet_size / 8;
		return;
	}
	if (lane->size && head->events_discarded > lane->discarded)
		packet.lost = head->events_discarded - lane->discarded;
	lane->size += head->packet_size / 8;
	lane->end = head->timestamp_end;
	lane->discarded = head->events_discarded;
	lane->sequence = head->packet_seq_num + 1;
	seen(context, &packet);
}

/* To the end of the last whole packet; what is behind it is cut off. */
static struct error *read_lane(const struct trace_writer *writer, int fd, writer_seen_fn seen,
			       void *context, struct writer_lane *lane)
{
	struct metadata_packet head;
	struct stat st;

	if (fstat(fd, &st))
		return error_errno(errno, "cannot read the trace in '%s'", writer->directory);
	uint64_t size = (uint64_t)st.st_size;
	while (lane->size < size && !lane->filler &&
	       pread(fd, &head, sizeof(head), (off_t)lane->size) == sizeof(head) &&
	       is_packet(writer, &head, size - lane->size))
		read_packet(lane, &head, lane->size + head.packet_size / 8 == size, seen, context);
	if (lane->size + lane->filler < size && ftruncate(fd, (off_t)lane->size))
		return error_errno(errno, "cannot take half a packet away in '%s'", writer->directory);
	return NULL;
}

static struct error *read_lanes(struct trace_writer *writer, writer_seen_fn seen, void *context)
{
	for (size_t i = 0; i < LANES_MAX; i++) {
		struct writer_lane lane = { .fd = -1 };
		char name[32];

		snprintf(name, sizeof(name), "stream_%zu", i);
		_cleanup_close_ int fd = writer->dir->open(writer->dir, name, false);
		if (fd < 0)
			return fd == -ENOENT ? NULL : error_errno(-fd, "cannot open '%s'", name);
		struct error *error = read_lane(writer, fd, seen, context, &lane);
		if (error)
			return error;
		if (!vec_push(&writer->lanes, lane))
			return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

/* ---- the directory -------------------------------------------------------------------------- */

static void print_uuid(const uint8_t uuid[16], char text[40])
{
	for (int i = 0; i < 16; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

/* Ours alone, and that trace. */
static struct error *check_directory(const struct trace_writer *writer, int directory)
{
	char uuid[40], text[4096] = "";
	struct stat st;

	if (fstat(directory, &st))
		return error_errno(errno, "cannot look at '%s'", writer->directory);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return error_new(ERROR_FAILED, "'%s' isn't yours alone", writer->directory);
	_cleanup_close_ int fd = openat(directory, "metadata", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return error_errno(errno, "cannot read the metadata in '%s'", writer->directory);
	print_uuid(writer->uuid, uuid);
	if (!strstr(text, uuid))
		return error_new(ERROR_FAILED, "'%s' is another trace", writer->directory);
	return NULL;
}

struct error *writer_reopen(const char *directory, const uint8_t uuid[16], struct event_types *types,
			    writer_seen_fn seen, void *seen_context, struct trace_writer **ret_writer)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));
	int fd;

	if (!writer)
		return error_new(ERROR_FAILED, "out of memory");
	memcpy(writer->uuid, uuid, sizeof(writer->uuid));
	writer->directory = directory;
	struct error *error = trace_dir_existing(directory, &fd, &writer->dir);
	writer->own_dir = !error;
	if (!error) {
		writer->directory = writer->dir->path;
		error = check_directory(writer, fd);
	}
	if (!error)
		error = read_types(writer, types);
	if (!error)
		error = read_lanes(writer, seen, seen_context);
	if (error) {
		writer_free(writer);
		return error;
	}
	*ret_writer = writer;
	return NULL;
}
