/*
 * writer.c - lanes, packets, the metadata file.
 *
 * How babeltrace2 reads a trace, as tried with 2.0.4:
 *  - It opens every file at once, so the files must be few (H22). Streams share a lane one after
 *    the other; from WRITER_LANES_FEW lanes on also side by side, as long as their packets don't
 *    overlap.
 *  - It counts events_discarded per file, and reports the difference of two neighbouring packets as
 *    lost. So the lane has its own running count, and a lane that would begin with a loss begins
 *    with an empty packet.
 *  - One packet that is cut short spoils the whole trace.
 *  - It looks for all packets first, and reads them later: no packet may move or grow meanwhile.
 *
 * So a file is made with its full length, which takes no disk space yet, and appears by rename. It
 * consists of whole packets at every moment, even if the controller is killed (the kernel may stop
 * a write after any page): it ends with an empty packet, the filler, whose room the next packets
 * take, one after the other:
 *
 *	| packets ...  | filler: a header, then nothing             |	lane.size, lane.filler
 *	| packets ...  | filler: a header, events | filler's header |	no reader looks inside
 *	| packets ...  | packet: header, events   | filler          |	by one write of one header
 *
 * (W1) lane.size is the end of the last packet that isn't the filler.
 * (W2) Packets of a lane do not overlap: lane.end <= the next one's begin.
 * (W3) A packet goes where the filler has room for it: a file never grows.
 * (W4) A packet whose content_size is that of its header holds no events, whatever its end is: its
 *      controller may have been killed while it wrote the packet.
 *
 * Traces that are bounded have another rule, in writer_rotate.h.
 */
#include "writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "metadata.h"
#include "writer_rotate.h"

/* ---- the directory and its metadata ------------------------------------------------------- */

static struct error *writer_make_directory(struct trace_dir *dir)
{
	const char *directory = dir->path;
	int made = dir->make(dir);

	switch (-made) {
	case 0:
		return NULL;
	case EEXIST:
		return error_new(
			ERROR_FAILED,
			"output directory '%s' exists already: remove it or choose another with -o",
			directory);
	case ENOENT:
		return error_new(
			ERROR_FAILED,
			"cannot create output directory '%s': the directory above it does not "
			"exist: create that first or choose another with -o",
			directory);
	case EACCES:
	case EPERM:
	case EROFS:
		return error_new(ERROR_FAILED,
				 "cannot create output directory '%s': %s: choose another with -o",
				 directory, strerror(-made));
	default:
		return error_errno(-made, "cannot create output directory '%s'", directory);
	}
}

struct error *writer_write_all(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(fd, text, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return error_errno(n ? errno : ENOSPC, "write");
		text += n;
		length -= (size_t)n;
	}
	return NULL;
}

struct error *writer_replace_metadata(const struct trace_writer *writer, const struct strbuf *text)
{
	static const char temporary[] = ".metadata.new";
	_cleanup_close_ int fd = writer->dir->open(writer->dir, temporary, true);

	if (fd < 0)
		return error_errno(-fd, "cannot write the trace's metadata in '%s'",
				   writer->directory);
	struct error *error = writer_write_all(fd, text->text, text->length);
	int renamed = error ? 0 : writer->dir->rename(writer->dir, temporary, "metadata");
	if (renamed)
		error = error_errno(-renamed, "rename");
	if (error)
		writer->dir->remove(writer->dir, temporary);
	return error_wrap(error, "cannot write the trace's metadata in '%s'", writer->directory);
}

void writer_note_process(struct trace_writer *writer, uint32_t pid, const char *process)
{
	if (!pid || !process[0])
		return;
	if (writer->pid && (writer->pid != pid || strncmp(writer->process, process,
							  sizeof(writer->process)) != 0))
		writer->is_mixed = true;
	writer->pid = pid;
	memcpy(writer->process, process, sizeof(writer->process));
}

static void writer_set_info(struct trace_writer *writer, const struct trace_info *info)
{
	char process[WRITER_PROCESS_SIZE] = { 0 };

	writer->info = *info;
	memcpy(process, info->process, sizeof(process) - 1);
	writer_note_process(writer, (uint32_t)info->pid, process);
}

struct error *writer_note_types(struct trace_writer *writer)
{
	return error_wrap(reopen_note_types(writer), "cannot write the trace's metadata in '%s'",
			  writer->directory);
}

static struct error *writer_write_metadata(struct trace_writer *writer)
{
	struct strbuf text _cleanup_(strbuf_free) = { 0 };

	metadata_write(&text, &writer->info, writer->is_mixed, writer->types, &writer->clock,
		       writer->part.uuid);
	if (writer->inherited)
		strbuf_add(&text, writer->inherited, strlen(writer->inherited));
	if (text.failed)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = writer_replace_metadata(writer, &text);
	writer->metadata_size = text.length;
	return error ? error : writer_note_types(writer);
}

void writer_free(struct trace_writer *writer)
{
	for (size_t i = 0; i < writer->lanes.count; i++) {
		if (writer->lanes.items[i].fd >= 0)
			close(writer->lanes.items[i].fd);
	}
	vec_free(&writer->lanes);
	vec_free(&writer->streams);
	writer_pieces_free(writer);
	free(writer->inherited);
	if (writer->notes >= 0)
		close(writer->notes);
	if (writer->own_dir)
		trace_dir_free(writer->dir);
	free(writer);
}

static struct error *writer_begin(struct trace_writer *writer)
{
	if (getrandom(writer->part.uuid, sizeof(writer->part.uuid), 0) != sizeof(writer->part.uuid))
		return error_errno(errno, "cannot get random bytes for the trace's UUID");
	writer->part.uuid[6] = (writer->part.uuid[6] & 0x0f) | 0x40; /* version 4, RFC 4122 */
	writer->part.uuid[8] = (writer->part.uuid[8] & 0x3f) | 0x80;
	return writer_write_metadata(writer);
}

struct error *writer_create_in(struct trace_dir *dir, const struct trace_info *info,
			       struct event_types *types, const struct clock_estimate *clock,
			       struct trace_writer **ret_writer)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return error_new(ERROR_FAILED, "out of memory");
	writer->notes = -1;
	writer->dir = dir;
	writer->directory = dir->path;
	writer_set_info(writer, info);
	writer->types = types;
	writer->clock = *clock;
	struct error *error = writer_make_directory(dir);
	if (error) {
		writer_free(writer);
		return error;
	}
	error = writer_begin(writer);
	if (error) {
		writer_discard(writer); /* all of it: the next attempt makes the directory again */
		return error;
	}
	*ret_writer = writer;
	return NULL;
}

void writer_set_modules(struct trace_writer *writer, char *const *modules, size_t count)
{
	writer->info.modules = modules;
	writer->info.module_count = count;
}

struct error *writer_create(const char *directory, const struct trace_info *info,
			    struct event_types *types, const struct clock_estimate *clock,
			    struct trace_writer **ret_writer)
{
	struct trace_writer *writer;
	struct trace_dir *dir;
	struct error *error = trace_dir_direct(directory, &dir);

	if (error)
		return error;
	error = writer_create_in(dir, info, types, clock, &writer);
	if (error) {
		trace_dir_free(dir);
		return error;
	}
	writer->own_dir = true;
	*ret_writer = writer;
	return NULL;
}

/* Finds a part number that no file has, nor had. */
static struct error *writer_number(struct trace_writer *writer)
{
	char name[WRITER_NAME_SIZE];
	int fd;

	for (size_t i = 0; i < writer->pieces.count; i++) {
		if (writer->pieces.items[i].part > writer->part.number)
			writer->part.number = writer->pieces.items[i].part;
	}
	do {
		writer->part.number++;
		writer_lane_name(writer, 0, name);
		fd = writer->dir->open(writer->dir, name, false);
		if (fd >= 0)
			close(fd);
	} while (fd >= 0 && writer->part.number < WRITER_PARTS_MAX);
	return fd == -ENOENT ?
		       NULL :
		       error_errno(fd < 0 ? -fd : EEXIST, "cannot go on with the trace in '%s'",
				   writer->directory);
}

struct error *writer_create_after(const struct trace_writer *before, const struct trace_info *info,
				  struct event_types *types, const struct clock_estimate *clock,
				  struct trace_writer **ret_writer)
{
	struct trace_writer *writer = calloc(1, sizeof(*writer));

	assert(before->noted <= types->count);
	if (!writer || (before->inherited && !(writer->inherited = strdup(before->inherited)))) {
		free(writer);
		return error_new(ERROR_FAILED, "out of memory");
	}
	writer->notes = -1;
	writer->noted = before->noted;
	writer->dir = before->own_dir ? trace_dir_share(before->dir) : before->dir;
	writer->own_dir = before->own_dir;
	writer->directory = writer->dir->path;
	writer->part = before->part;
	writer_set_info(writer, info);
	writer->is_mixed = before->is_mixed;
	writer_note_process(writer, before->pid, before->process);
	writer->types = types;
	writer->clock = *clock;
	struct error *error = writer_pieces_inherit(writer, before) ?
				      writer_number(writer) :
				      error_new(ERROR_FAILED, "out of memory");
	if (!error)
		error = writer_write_metadata(writer);
	if (error)
		writer_free(writer);
	else
		*ret_writer = writer;
	return error;
}

struct error *writer_update(struct trace_writer *writer, const struct clock_estimate *clock)
{
	writer->clock = *clock;
	return writer_write_metadata(writer);
}

/* ---- streams ------------------------------------------------------------------------------ */

/* The index at which that stream is, or would have to be inserted. */
static size_t writer_stream_index(const struct trace_writer *writer, uint64_t number)
{
	return sorted_count(writer->streams.count, i, writer->streams.items[i].number < number);
}

static struct writer_stream *writer_find_stream(struct trace_writer *writer, uint64_t number)
{
	size_t index = writer_stream_index(writer, number);

	if (index < writer->streams.count && writer->streams.items[index].number == number)
		return &writer->streams.items[index];
	return NULL;
}

static struct writer_stream *writer_add_stream(struct trace_writer *writer, uint64_t number)
{
	size_t index = writer_stream_index(writer, number);

	if (!vec_reserve(&writer->streams, 1))
		return NULL;
	struct writer_stream *stream = &writer->streams.items[index];
	assert(index == writer->streams.count || stream->number > number);
	memmove(stream + 1, stream, (writer->streams.count - index) * sizeof(*stream));
	writer->streams.count++;
	*stream = (struct writer_stream){ .number = number, .lane = WRITER_NO_LANE };
	return stream;
}

void writer_end_stream(struct trace_writer *writer, uint64_t number)
{
	struct writer_stream *stream = writer_find_stream(writer, number);

	if (!stream)
		return;
	if (stream->lane != WRITER_NO_LANE)
		writer->lanes.items[stream->lane].taken = false;
	size_t index = (size_t)(stream - writer->streams.items);
	memmove(stream, stream + 1, (writer->streams.count - index - 1) * sizeof(*stream));
	writer->streams.count--;
}

/* ---- packets ------------------------------------------------------------------------------ */

/*
 * Makes the filler a packet, by one write. A header that lies across two pages is written field by
 * field, such that each state in between is a packet, too (W4): a filler until events_discarded is
 * there, which therefore comes after the thread whose loss it is; then an empty packet that carries
 * this loss; and only content_size, the last, puts the events into the trace.
 */
static struct error *writer_flip(const struct trace_writer *writer, const struct writer_lane *lane,
				 const struct metadata_packet *head)
{
	static const struct {
		size_t from, to;
	} order[] = {
		{ offsetof(struct metadata_packet, timestamp_end),
		  offsetof(struct metadata_packet, content_size) },
		{ 0, offsetof(struct metadata_packet, timestamp_end) },
		{ offsetof(struct metadata_packet, packet_seq_num),
		  sizeof(struct metadata_packet) },
		{ offsetof(struct metadata_packet, events_discarded),
		  offsetof(struct metadata_packet, packet_seq_num) },
		{ offsetof(struct metadata_packet, packet_size),
		  offsetof(struct metadata_packet, events_discarded) },
		{ offsetof(struct metadata_packet, content_size),
		  offsetof(struct metadata_packet, packet_size) },
	};
	struct error *error = NULL;

	if (lane->size % WRITER_PAGE + sizeof(*head) <= WRITER_PAGE)
		return writer_put_bytes(writer, lane->fd, head, sizeof(*head), lane->size);
	for (size_t i = 0; i < sizeof(order) / sizeof(*order) && !error; i++)
		error = writer_put_bytes(writer, lane->fd, (const char *)head + order[i].from,
					 order[i].to - order[i].from, lane->size + order[i].from);
	return error;
}

static struct error *writer_append(struct trace_writer *writer, struct writer_lane *lane,
				   struct metadata_packet *head, const struct packet *packet)
{
	uint64_t need = sizeof(*head) + packet->size;

	assert(lane->filler >= need); /* W3 */
	if (lane->filler - need < sizeof(*head))
		need = lane->filler; /* the rest has no room for a header: this packet takes it */
	struct metadata_packet rest = writer_filler(writer, packet->end, head->events_discarded,
						    lane->sequence + 1, lane->filler - need);
	struct iovec parts[2] = { { (void *)packet->events, packet->size },
				  { &rest, sizeof(rest) } };
	head->packet_size = need * 8;
	writer_take_blocks(writer, lane, need);
	struct error *error = writer_put(writer, lane->fd, parts, need < lane->filler ? 2 : 1,
					 lane->size + sizeof(*head), packet->aside);
	if (!error)
		error = writer_flip(writer, lane, head);
	if (error)
		return error;
	lane->size += need;
	lane->filler -= need;
	assert(lane->size % 8 == 0 && (!lane->filler || lane->filler >= sizeof(*head))); /* W1 */
	writer->bytes += need;
	return NULL;
}

static struct error *writer_emit(struct trace_writer *writer, struct writer_lane *lane,
				 const struct packet *packet, uint64_t discarded)
{
	struct metadata_packet head = {
		.magic = METADATA_MAGIC,
		.timestamp_begin = packet->begin,
		.timestamp_end = packet->end,
		.content_size = (sizeof(head) + packet->size - packet->padding) * 8,
		.events_discarded = discarded,
		.packet_seq_num = lane->sequence,
		.tid = packet->tid,
		.pid = packet->pid,
		.vtid = packet->inner_tid,
		.vpid = packet->inner_pid,
	};

	memcpy(head.procname, packet->process, sizeof(head.procname));
	assert(lane->end <= packet->begin); /* W2 */
	memcpy(head.uuid, writer->part.uuid, sizeof(head.uuid));
	struct error *error = writer_append(writer, lane, &head, packet);
	if (error)
		return error;
	lane->sequence++;
	lane->end = packet->end;
	lane->discarded = discarded;
	lane->used = ++writer->turn;
	return NULL;
}

/* Begins a lane with an empty packet: readers report no loss of a lane's first packet. */
static struct error *writer_emit_opening(struct trace_writer *writer, struct writer_lane *lane,
					 const struct packet *packet)
{
	struct packet empty = *packet;

	empty.end = empty.begin;
	empty.events = NULL;
	empty.size = 0;
	empty.padding = 0;
	empty.aside = NULL;
	return writer_emit(writer, lane, &empty, 0);
}

/* Fails if the file was removed meanwhile: packets that go there are lost (H39). */
static struct error *writer_check_file(const struct trace_writer *writer,
				       const struct writer_lane *lane)
{
	struct stat stat;

	if (fstat(lane->fd, &stat) || stat.st_nlink)
		return NULL;
	return error_new(ERROR_FAILED, "cannot write the trace in '%s': its files were removed",
			 writer->directory);
}

struct error *writer_packet(struct trace_writer *writer, uint64_t number,
			    const struct packet *packet)
{
	struct writer_stream *stream = writer_find_stream(writer, number);

	assert(packet->begin <= packet->end);
	assert(packet->padding <= packet->size && packet->size % 8 == 0);
	if (!stream && !(stream = writer_add_stream(writer, number)))
		return error_new(ERROR_FAILED, "out of memory");
	size_t index = 0;
	/* room for an opening packet too */
	uint64_t need = sizeof(struct metadata_packet) * 2 + packet->size;
	struct error *error = writer_rotate(writer, need);
	if (error)
		return error;
	if (!writer_has_room(writer, need)) { /* it would be the oldest */
		writer->removed.events += packet->count;
		writer->removed.bytes += packet->size;
		return NULL;
	}
	error = writer_choose_lane(writer, stream, packet->begin, need, &index);
	if (error)
		return error;
	if (index != stream->lane) {
		if (stream->lane != WRITER_NO_LANE)
			writer->lanes.items[stream->lane].taken = false;
		writer->lanes.items[index].taken = true;
		stream->lane = index;
	}
	struct writer_lane *lane = &writer->lanes.items[index];
	assert(lane->fd >= 0);
	uint64_t lost = packet->lost > stream->lost ? packet->lost - stream->lost : 0;
	writer_note_process(writer, packet->pid, packet->process);
	error = writer_check_file(writer, lane);
	if (!error && packet->size)
		error = writer_check_space(writer, lane->fd, need);
	if (!error && lost && !lane->sequence)
		error = writer_emit_opening(writer, lane, packet);
	if (!error)
		error = writer_emit(writer, lane, packet, lane->discarded + lost);
	if (!error)
		stream->lost += lost;
	if (!error) {
		writer->piece_events += packet->count;
		writer->piece_payload += packet->size;
	}
	return error;
}

void writer_identify(const struct trace_writer *writer, struct writer_part *ret_part,
		     char *ret_path, size_t size)
{
	/* this process may be unable to resolve another user's path */
	_cleanup_free_ char *path =
		writer->own_dir ? realpath(writer->directory, NULL) : strdup(writer->directory);

	*ret_part = writer->part;
	if (!path || snprintf(ret_path, size, "%s", path) >= (int)size)
		ret_path[0] = '\0';
}

/* Cuts the filler off. */
static struct error *writer_trim(struct trace_writer *writer, size_t index)
{
	struct writer_lane *lane = &writer->lanes.items[index];
	struct error *error = lane->filler ? writer_open_lane(writer, index) : NULL;

	if (!error && lane->filler && ftruncate(lane->fd, (off_t)lane->size))
		error = writer_failed(writer, errno);
	lane->filler = 0;
	return error;
}

static struct error *writer_close_all(struct trace_writer *writer)
{
	struct error *error = NULL;

	while (writer->open_count && !error)
		error = writer_close_one(writer);
	return error;
}

struct error *writer_suspend(struct trace_writer *writer)
{
	struct error *error = writer_close_all(writer);

	writer_free(writer);
	return error;
}

struct error *writer_complete(struct trace_writer *writer)
{
	struct error *error = NULL;

	for (size_t i = 0; i < writer->lanes.count && !error; i++)
		error = writer_trim(writer, i);
	writer_pieces_trim(writer);
	return error ? error : writer_close_all(writer);
}

struct error *writer_close(struct trace_writer *writer)
{
	struct error *error = writer_complete(writer);

	reopen_forget_types(writer);
	writer_pieces_forget(writer);
	writer_free(writer);
	return error;
}

void writer_discard(struct trace_writer *writer)
{
	char name[WRITER_NAME_SIZE];

	error_free(writer_close_all(writer));
	for (uint64_t i = 0; i < writer->lane_base + writer->lanes.count; i++) {
		writer_file_name(writer->part.number, i, name);
		writer->dir->remove(writer->dir, name);
	}
	writer_pieces_forget(writer);
	reopen_forget_types(writer);
	writer->dir->remove(writer->dir, "metadata");
	writer->dir->remove(writer->dir, NULL);
	writer_free(writer);
}
