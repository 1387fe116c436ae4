/*
 * reopen.c - go on with a trace whose controller was killed.
 *
 * The trace itself holds nearly all that is needed: where each lane ends, and the contents of its
 * last packet. But the layout of events isn't easily read from the metadata, which may lack the
 * latest kinds of events. So reopen_note_types notes each kind, before any code can record it, in a
 * file beside the metadata. The file's name begins with a dot (readers of traces ignore it), and
 * the file goes away when the trace is closed. Notes are appended; half a note at the end belongs
 * to no event that was ever recorded:
 *
 *	event ID SIZE FLAGS FIELDS LENGTH	and for each of its fields:
 *	TYPE SIZE OFFSET COUNT			and then, LENGTH bytes:
 *	its declaration in the metadata
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "metadata.h"
#include "shared/layout.h"
#include "writer_rotate.h"

#define TYPES_FILE ".events"
#define NOTE_VARIABLE 1u
#define NOTE_PAIR 2u
#define LANES_MAX 65536
#define FIELDS_MAX 4096
#define METADATA_MAX (1 << 30)
#define DECLARATION_MAX (1u << 24)
#define METADATA_FIRST_EVENT "\n\nevent {\n"

/* ---- layout of events ----------------------------------------------------------------------- */

static void print_type(struct strbuf *buf, const struct event_type *type)
{
	_cleanup_(strbuf_free) struct strbuf declaration = { 0 };

	if (type->size && type->name)
		metadata_event(&declaration, type);
	strbuf_printf(buf, "event %u %u %u %zu %zu\n", type->id, type->size,
		      (type->is_variable ? NOTE_VARIABLE : 0) | (type->is_pair ? NOTE_PAIR : 0),
		      type->field_count, declaration.length);
	for (size_t i = 0; i < type->field_count; i++) {
		const struct event_field *field = &type->fields[i];

		strbuf_printf(buf, "%d %u %u %u\n", (int)field->type, field->size, field->offset,
			      field->count);
	}
	if (declaration.length)
		strbuf_add(buf, declaration.text, declaration.length);
	strbuf_add(buf, "\n", 1);
	buf->failed |= declaration.failed;
}

struct error *reopen_note_types(struct trace_writer *writer)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	size_t count = writer->types->count;

	assert(writer->noted <= count);
	if (writer->noted == count && writer->notes >= 0)
		return NULL;
	if (writer->notes < 0)
		writer->notes = writer->dir->open(writer->dir, TYPES_FILE, !writer->noted);
	if (writer->notes < 0)
		return error_errno(-writer->notes, "cannot write '%s'", TYPES_FILE);
	for (size_t i = writer->noted; i < count; i++)
		print_type(&text, &writer->types->items[i]);
	if (text.failed)
		return error_new(ERROR_FAILED, "out of memory");
	off_t end = lseek(writer->notes, 0, SEEK_END);
	struct error *error =
		text.length ? writer_write_all(writer->notes, text.text, text.length) : NULL;
	if (error && end >= 0 && ftruncate(writer->notes, end))
		return error_wrap(error, "cannot write '%s', and half of it stays", TYPES_FILE);
	if (!error)
		writer->noted = count;
	return error_wrap(error, "cannot write '%s'", TYPES_FILE);
}

void reopen_forget_types(const struct trace_writer *writer)
{
	writer->dir->remove(writer->dir, TYPES_FILE);
}

/* A reader of events relies on these bounds. */
static bool is_sound(const struct event_type *type)
{
	return type->size % 8 == 0 && type->size <= DT_EVENT_SIZE_MAX;
}

/* Does the field lie inside the event? One of variable size is measured anew in each event. */
static bool fits(const struct event_type *type, const struct event_field *field)
{
	return type->is_variable || !type->size || event_field_end(field) <= type->size;
}

static bool scan_fields(FILE *file, struct event_type *type)
{
	for (size_t i = 0; i < type->field_count; i++) {
		unsigned kind, size, offset, count;

		if (fscanf(file, "%u %u %u %u", &kind, &size, &offset, &count) != 4 ||
		    kind > FIELD_END || size > 8 || offset > DT_EVENT_SIZE_MAX ||
		    count > DT_EVENT_SIZE_MAX)
			return false;
		type->fields[i].type = (enum field_type)kind;
		type->fields[i].size = (uint8_t)size;
		type->fields[i].offset = (uint16_t)offset;
		type->fields[i].count = (uint16_t)count;
		if (!fits(type, &type->fields[i]))
			return false;
	}
	return true;
}

static bool scan_declaration(FILE *file, size_t length, struct strbuf *declarations)
{
	_cleanup_free_ char *text = length < DECLARATION_MAX ? malloc(length + 2) : NULL;

	/* reads the end of the line before it, and the end of its own last line */
	if (!text || fgetc(file) != '\n' || fread(text, 1, length + 1, file) != length + 1 ||
	    text[length] != '\n')
		return false;
	strbuf_add(declarations, text, length);
	return !declarations->failed;
}

static bool scan_type(FILE *file, struct event_types *types, struct strbuf *declarations)
{
	struct event_type type = { 0 };
	size_t length;
	unsigned flags;

	if (fscanf(file, " event %u %u %u %zu %zu", &type.id, &type.size, &flags,
		   &type.field_count, &length) != 5 ||
	    type.id != types->count || type.id >= DT_EVENTS_MAX || type.field_count > FIELDS_MAX ||
	    !is_sound(&type) || (flags & NOTE_PAIR && !type.id))
		return false;
	type.is_variable = flags & NOTE_VARIABLE;
	type.is_pair = flags & NOTE_PAIR;
	type.fields = calloc(type.field_count + 1, sizeof(*type.fields));
	if (!type.fields || !scan_fields(file, &type) ||
	    !scan_declaration(file, length, declarations) || !vec_push(types, type)) {
		free(type.fields);
		return false;
	}
	return true;
}

/* Reads whole notes, and cuts the rest of the file off. */
static struct error *read_types(struct trace_writer *writer, struct event_types *types)
{
	_cleanup_(strbuf_free) struct strbuf declarations = { 0 };
	_cleanup_close_ int fd = writer->dir->open(writer->dir, TYPES_FILE, false);
	_cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	long end = 0;

	if (!file)
		return error_errno(fd < 0 ? -fd : errno, "cannot read the layout of events in '%s'",
				   writer->directory);
	take_fd(&fd); /* it is the file's */
	errno = 0;
	while (scan_type(file, types, &declarations))
		end = ftell(file);
	if (errno == ENOMEM || errno == EIO || ferror(file)) /* the notes behind it are whole */
		return error_errno(errno ? errno : EIO, "cannot read '%s/%s'", writer->directory,
				   TYPES_FILE);
	if (end < 0 || ftruncate(fileno(file), end))
		return error_errno(errno, "cannot read '%s/%s'", writer->directory, TYPES_FILE);
	writer->noted = types->count;
	writer->inherited = declarations.text ? strdup(declarations.text) : strdup("");
	return writer->inherited ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* ---- lanes ---------------------------------------------------------------------------------- */

/* Is this the header of a whole packet of this trace? */
static bool is_packet(const struct trace_writer *writer, const struct metadata_packet *head,
		      uint64_t left)
{
	return head->magic == METADATA_MAGIC &&
	       !memcmp(head->uuid, writer->part.uuid, sizeof(head->uuid)) &&
	       head->packet_size % 64 == 0 && head->content_size <= head->packet_size &&
	       head->content_size / 8 >= sizeof(*head) && head->packet_size / 8 <= left &&
	       head->timestamp_begin <= head->timestamp_end;
}

/* Does the event belong to a call that was recorded at its exit? */
static bool is_of_pair(const struct event_types *types, uint64_t event)
{
	uint64_t id = event & DT_EVENT_ID_MASK;

	return (id < types->count && types->items[id].is_pair) ||
	       (id + 1 < types->count && types->items[id + 1].is_pair);
}

/* The caller who is told of packets, and the kinds of their events. */
struct witness {
	writer_seen_fn seen;
	void *context;
	const struct event_types *types;
};

/* `event`: the packet's first. */
static void read_packet(struct trace_writer *writer, struct writer_lane *lane,
			const struct metadata_packet *head, uint64_t event, bool is_last,
			const struct witness *witness)
{
	bool has_events = head->content_size > sizeof(*head) * 8;
	struct packet_seen packet = {
		.begin = head->timestamp_begin,
		.end = head->timestamp_end,
		.has_events = has_events,
		.is_pairs = has_events && is_of_pair(witness->types, event),
		.inner_tid = head->vtid,
		.inner_pid = head->vpid,
	};

	/* an empty packet at the end that carries no loss is the filler */
	lane->filler = 0;
	if (is_last && head->content_size == sizeof(*head) * 8 &&
	    head->events_discarded == lane->discarded) {
		lane->filler = head->packet_size / 8;
		return;
	}
	if (lane->size && head->events_discarded > lane->discarded)
		packet.lost = head->events_discarded - lane->discarded;
	lane->size += head->packet_size / 8;
	lane->end = head->timestamp_end;
	lane->discarded = head->events_discarded;
	lane->sequence = head->packet_seq_num + 1;
	writer_note_process(writer, head->pid, head->procname);
	witness->seen(witness->context, &packet);
}

/* Reads up to the end of the last whole packet, and cuts the rest off. */
static struct error *read_lane(struct trace_writer *writer, int fd, const struct witness *witness,
			       struct writer_lane *lane)
{
	struct {
		struct metadata_packet head;
		uint64_t event;
	} first = { 0 };
	const struct metadata_packet *head = &first.head;
	struct stat st;

	if (fstat(fd, &st))
		return error_errno(errno, "cannot read the trace in '%s'", writer->directory);
	uint64_t size = (uint64_t)st.st_size;
	while (lane->size < size && !lane->filler &&
	       pread(fd, &first, sizeof(first), (off_t)lane->size) >= (ssize_t)sizeof(*head) &&
	       is_packet(writer, head, size - lane->size))
		read_packet(writer, lane, head, first.event,
			    lane->size + head->packet_size / 8 == size, witness);
	assert(lane->size + lane->filler <= size);
	if (lane->size + lane->filler < size && ftruncate(fd, (off_t)lane->size))
		return error_errno(errno, "cannot cut off half a packet in '%s'",
				   writer->directory);
	/* the dead controller asked for some ahead */
	if ((uint64_t)st.st_blocks * 512 > writer_whole_pages(lane->size + sizeof(*head)))
		lane->blocks = lane->size + lane->filler;
	return NULL;
}

/* Files from here to *ret_end belong to older pieces, and may be missing. */
static uint64_t find_pieces(const struct trace_writer *writer, uint64_t *ret_end)
{
	uint64_t first = UINT64_MAX, end = 0;

	for (size_t i = 0; i < writer->pieces.count; i++) {
		const struct writer_piece *piece = &writer->pieces.items[i];

		if (piece->part != writer->part.number)
			continue;
		first = piece->first < first ? piece->first : first;
		end = piece->end > end ? piece->end : end;
	}
	*ret_end = end;
	return first < end ? first : end;
}

/* Reads a file that gets no packet any more, and cuts its filler off. The file may be missing. */
static struct error *cut_file(struct trace_writer *writer, uint32_t part, uint64_t file,
			      const struct witness *witness)
{
	struct writer_lane lane = { .fd = -1 };
	char name[WRITER_NAME_SIZE];

	writer_file_name(part, file, name);
	_cleanup_close_ int fd = writer->dir->open(writer->dir, name, false);
	if (fd < 0)
		return fd == -ENOENT ? NULL : error_errno(-fd, "cannot open '%s'", name);
	struct error *error = read_lane(writer, fd, witness, &lane);
	if (!error && lane.filler && ftruncate(fd, (off_t)lane.size))
		error = error_errno(errno, "cannot cut '%s'", name);
	return error;
}

/* Reads files of older pieces (W5). */
static struct error *read_pieces(struct trace_writer *writer, const struct witness *witness)
{
	uint64_t end, first = find_pieces(writer, &end);
	struct error *error = NULL;

	writer->lane_base = end;
	for (uint64_t i = first; i < end && i - first < LANES_MAX && !error; i++)
		error = cut_file(writer, writer->part.number, i, witness);
	return error;
}

static struct error *read_lanes(struct trace_writer *writer, const struct witness *witness)
{
	for (size_t i = 0; i < LANES_MAX; i++) {
		struct writer_lane lane = { .fd = -1 };
		char name[WRITER_NAME_SIZE];

		writer_lane_name(writer, i, name);
		_cleanup_close_ int fd = writer->dir->open(writer->dir, name, false);
		if (fd < 0)
			return fd == -ENOENT ? NULL : error_errno(-fd, "cannot open '%s'", name);
		struct error *error = read_lane(writer, fd, witness, &lane);
		if (error)
			return error;
		if (!vec_push(&writer->lanes, lane))
			return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

static void ignore_packet(void *unused, const struct packet_seen *packet)
{
	(void)unused;
	(void)packet;
}

/* A file that was cut is seldom whole pages: not all of its packets are read. */
static bool may_have_filler(const struct trace_writer *writer, uint32_t part, uint64_t file)
{
	char name[WRITER_NAME_SIZE];
	struct stat st;

	writer_file_name(part, file, name);
	_cleanup_close_ int fd = writer->dir->open(writer->dir, name, false);
	return fd >= 0 && !fstat(fd, &st) && st.st_size % WRITER_PAGE == 0;
}

/* (W7) The controller that went on with an earlier part may have been killed, too, when nobody else
 * knew of that part. What can't be cut stays: it harms no reader. */
static void cut_earlier_parts(struct trace_writer *writer, const struct event_types *types)
{
	const struct witness nobody = { ignore_packet, NULL, types };

	for (size_t i = 0; i < writer->pieces.count; i++) {
		const struct writer_piece *piece = &writer->pieces.items[i];
		uint64_t end = piece->part < writer->part.number ? piece->end : piece->first;

		for (uint64_t j = piece->first; j < end && j - piece->first < LANES_MAX; j++) {
			if (may_have_filler(writer, piece->part, j))
				error_free(cut_file(writer, piece->part, j, &nobody));
		}
	}
}

/* ---- the directory -------------------------------------------------------------------------- */

static void print_uuid(const uint8_t uuid[16], char text[40])
{
	for (int i = 0; i < 16; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
				uuid[i]);
}

/* Does the directory belong to this user alone? */
static struct error *check_owner(const struct trace_writer *writer, int directory)
{
	struct stat st;

	if (fstat(directory, &st))
		return error_errno(errno, "cannot look at '%s'", writer->directory);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return error_new(ERROR_FAILED, "'%s' isn't yours alone", writer->directory);
	return NULL;
}

/* Reads the whole file; the caller frees. */
static struct error *read_metadata(const struct trace_writer *writer, char **ret_text)
{
	_cleanup_close_ int fd = writer->dir->open(writer->dir, "metadata", false);
	struct stat st;

	if (fd < 0)
		return error_errno(-fd, "cannot read the metadata in '%s'", writer->directory);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > METADATA_MAX)
		return error_new(ERROR_FAILED, "'%s' is no trace", writer->directory);
	_cleanup_free_ char *text = calloc(1, (size_t)st.st_size + 1);
	if (!text)
		return error_new(ERROR_FAILED, "out of memory");
	if (pread(fd, text, (size_t)st.st_size, 0) != st.st_size)
		return error_errno(errno, "cannot read the metadata in '%s'", writer->directory);
	*ret_text = take_ptr(&text);
	return NULL;
}

/* Does the metadata have the trace's UUID? */
static struct error *check_metadata(const struct trace_writer *writer, const char *text)
{
	char uuid[40];

	print_uuid(writer->part.uuid, uuid);
	return strstr(text, uuid) ?
		       NULL :
		       error_new(ERROR_FAILED, "'%s' is another trace", writer->directory);
}

/* Makes the metadata, which is `text` now, declare all events that were noted. */
static struct error *complete_metadata(const struct trace_writer *writer, const char *text)
{
	_cleanup_(strbuf_free) struct strbuf whole = { 0 };
	const char *events = strstr(text, METADATA_FIRST_EVENT);
	size_t head = events ? (size_t)(events - text) + 2 : strlen(text);

	if (strlen(text + head) == strlen(writer->inherited))
		return NULL;
	strbuf_add(&whole, text, head);
	strbuf_add(&whole, writer->inherited, strlen(writer->inherited));
	return whole.failed ? error_new(ERROR_FAILED, "out of memory") :
			      writer_replace_metadata(writer, &whole);
}

/* Frees the writer if it fails. */
static struct error *reopen(struct trace_writer *writer, struct event_types *types,
			    writer_seen_fn seen, void *seen_context,
			    struct trace_writer **ret_writer)
{
	const struct witness witness = { seen, seen_context, types };
	_cleanup_free_ char *text = NULL;

	writer->directory = writer->dir->path;
	struct error *error = read_metadata(writer, &text);
	if (!error)
		error = check_metadata(writer, text);
	if (!error)
		error = read_types(writer, types);
	if (!error)
		error = complete_metadata(writer, text);
	writer->metadata_size = text ? strlen(text) : 0;
	if (!error)
		error = writer_pieces_read(writer);
	if (!error)
		error = read_pieces(writer, &witness);
	if (!error)
		error = read_lanes(writer, &witness);
	if (!error)
		cut_earlier_parts(writer, types);
	if (error) {
		writer_free(writer);
		return error;
	}
	*ret_writer = writer;
	return NULL;
}

struct error *writer_reopen_in(struct trace_dir *dir, const struct writer_part *part,
			       struct event_types *types, writer_seen_fn seen, void *seen_context,
			       struct trace_writer **ret_writer)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return error_new(ERROR_FAILED, "out of memory");
	writer->notes = -1;
	writer->part = *part;
	writer->dir = dir;
	return reopen(writer, types, seen, seen_context, ret_writer);
}

struct error *writer_reopen(const char *directory, const struct writer_part *part,
			    struct event_types *types, writer_seen_fn seen, void *seen_context,
			    struct trace_writer **ret_writer)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));
	int fd;

	if (!writer)
		return error_new(ERROR_FAILED, "out of memory");
	writer->notes = -1;
	writer->part = *part;
	writer->directory = directory;
	struct error *error = trace_dir_existing(directory, &fd, &writer->dir);
	writer->own_dir = !error;
	if (!error)
		error = check_owner(writer, fd);
	if (error) {
		writer_free(writer);
		return error;
	}
	return reopen(writer, types, seen, seen_context, ret_writer);
}
