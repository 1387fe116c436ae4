#include "writer_rotate.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"

#define PIECES_FILE ".pieces"
#define PIECES_FILE_MAX (1 << 20)
/* Pieces of a trace that only its size bounds: the more, the less is removed at once. A reader
 * opens all files at the same time (H22), so there are fewer pieces where each has many files. */
#define PIECES_MOST 8u
#define PIECES_LEAST 2u
#define FILES_GOAL 512u
#define FILES_SOUGHT 65536u

/* Free space that stays on a file system: this much, or a share of a small one. */
#define SPACE_RESERVE (16u << 20)
#define SPACE_SHARE 16u
#define SPACE_LOOK_NS 200000000ULL

void writer_set_limits(struct trace_writer *writer, const struct writer_limits *limits)
{
	assert(!writer->lanes.count);
	writer->limits = *limits;
	writer->piece_end = limits->rotate_ns ? now_ns() + limits->rotate_ns : 0;
}

bool writer_is_bounded(const struct trace_writer *writer)
{
	return writer->limits.max_size;
}

void writer_get_removed(const struct trace_writer *writer, struct writer_removed *ret_removed)
{
	*ret_removed = writer->removed;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

/* Space on disk of a file: packets, and the header of the filler behind them. */
static uint64_t lane_bytes(const struct writer_lane *lane)
{
	return writer_whole_pages(lane->size + sizeof(struct metadata_packet));
}

static uint64_t current_bytes(const struct trace_writer *writer)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < writer->lanes.count; i++)
		bytes += lane_bytes(&writer->lanes.items[i]);
	return bytes;
}

/* The limit, without the metadata, its successor and the notes of it. */
static uint64_t size_limit(const struct trace_writer *writer)
{
	uint64_t other = 3 * writer_whole_pages(writer->metadata_size);
	uint64_t most = writer->limits.max_size / 2;

	return writer->limits.max_size - (other < most ? other : most);
}

static uint64_t piece_limit(const struct trace_writer *writer)
{
	uint64_t count = writer->limits.max_files;

	if (!count) {
		count = FILES_GOAL / (writer->lanes.count + 1);
		count = count > PIECES_MOST ? PIECES_MOST : count;
		count = count < PIECES_LEAST ? PIECES_LEAST : count;
	}
	return size_limit(writer) / count;
}

/* ---- notes ---------------------------------------------------------------------------------- */

/* Does anything bound what is kept? If not, older pieces needn't be told apart. */
static bool is_bounded(const struct trace_writer *writer)
{
	return writer->limits.max_size || writer->limits.max_files;
}

/* The current piece, or a dead controller's last one. */
static struct writer_piece last_piece(const struct trace_writer *writer)
{
	return (struct writer_piece){ .part = writer->part.number,
				      .first = writer->lane_base,
				      .end = writer->lane_base + writer->lanes.count,
				      .bytes = current_bytes(writer) };
}

static void print_piece(struct strbuf *text, const struct writer_piece *piece)
{
	strbuf_printf(text, "%" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", piece->part,
		      piece->first, piece->end, piece->bytes);
}

static struct error *write_notes(const struct trace_writer *writer)
{
	static const char temporary[] = ".pieces.new";
	const struct trace_writer *after = writer->after;
	const struct writer_piece last = last_piece(writer);
	_cleanup_(strbuf_free) struct strbuf text = { 0 };

	for (size_t i = 0; i < writer->pieces.count; i++)
		print_piece(&text, &writer->pieces.items[i]);
	if (after) /* also without files: it tells the number of the next one */
		print_piece(&text, &last);
	for (size_t i = 0; after && i < after->pieces.count; i++) {
		if (after->pieces.items[i].part == after->part.number)
			print_piece(&text, &after->pieces.items[i]);
	}
	if (text.failed)
		return error_new(ERROR_FAILED, "out of memory");
	_cleanup_close_ int fd = writer->dir->open(writer->dir, temporary, true);
	if (fd < 0)
		return error_errno(-fd, "cannot write the trace in '%s'", writer->directory);
	struct error *error =
		text.length ? writer_write_all(fd, text.text, text.length) : NULL;
	int renamed = error ? 0 : writer->dir->rename(writer->dir, temporary, PIECES_FILE);
	if (renamed)
		error = error_errno(-renamed, "rename");
	if (error)
		writer->dir->remove(writer->dir, temporary);
	return error_wrap(error, "cannot write the trace in '%s'", writer->directory);
}

static bool read_line(const char *line, struct writer_piece *ret_piece)
{
	struct writer_piece piece = { 0 };

	if (sscanf(line, "%" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64, &piece.part, &piece.first,
		   &piece.end, &piece.bytes) != 4 ||
	    piece.part >= WRITER_PARTS_MAX || piece.first > piece.end || piece.end > UINT32_MAX ||
	    piece.bytes > INT64_MAX)
		return false;
	*ret_piece = piece;
	return true;
}

static bool insert_piece(struct trace_writer *writer, size_t at, struct writer_piece piece)
{
	if (!vec_reserve(&writer->pieces, 1))
		return false;
	struct writer_piece *place = &writer->pieces.items[at];
	memmove(place + 1, place, (writer->pieces.count++ - at) * sizeof(piece));
	*place = piece;
	return true;
}

/* Adds the files of an earlier part that are behind its last note: its controller was killed, and
 * the next one before it could note them. */
static struct error *find_unnoted(struct trace_writer *writer, uint32_t part)
{
	struct writer_piece piece = { .part = part };
	size_t at = 0;

	for (size_t i = 0; i < writer->pieces.count; i++) {
		const struct writer_piece *noted = &writer->pieces.items[i];

		if (noted->part <= part)
			at = i + 1;
		if (noted->part == part && noted->end > piece.first)
			piece.first = noted->end;
	}
	for (piece.end = piece.first; piece.end - piece.first < FILES_SOUGHT; piece.end++) {
		char name[WRITER_NAME_SIZE];
		struct stat st;

		writer_file_name(part, piece.end, name);
		_cleanup_close_ int fd = writer->dir->open(writer->dir, name, false);
		if (fd == -ENOENT)
			break;
		if (fd < 0 || fstat(fd, &st))
			return error_errno(fd < 0 ? -fd : errno, "cannot open '%s'", name);
		piece.bytes += writer_whole_pages((uint64_t)st.st_blocks * 512);
	}
	return piece.end == piece.first || insert_piece(writer, at, piece) ?
		       NULL :
		       error_new(ERROR_FAILED, "out of memory");
}

static struct error *read_notes(struct trace_writer *writer)
{
	_cleanup_close_ int fd = writer->dir->open(writer->dir, PIECES_FILE, false);
	struct writer_piece piece;
	struct stat st;

	if (fd == -ENOENT)
		return NULL;
	if (fd < 0 || fstat(fd, &st))
		return error_errno(fd < 0 ? -fd : errno, "cannot read '%s/%s'", writer->directory,
				   PIECES_FILE);
	size_t size = st.st_size < PIECES_FILE_MAX ? (size_t)st.st_size : PIECES_FILE_MAX;
	_cleanup_free_ char *text = calloc(1, size + 1);
	if (!text)
		return error_new(ERROR_FAILED, "out of memory");
	if (pread(fd, text, size, 0) != (ssize_t)size)
		return error_errno(errno, "cannot read '%s/%s'", writer->directory, PIECES_FILE);
	for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
		if (read_line(line, &piece) && !vec_push(&writer->pieces, piece))
			return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

struct error *writer_pieces_read(struct trace_writer *writer)
{
	struct error *error = read_notes(writer);

	for (uint32_t part = 0; part < writer->part.number && !error; part++)
		error = find_unnoted(writer, part);
	return error;
}

void writer_pieces_forget(const struct trace_writer *writer)
{
	writer->dir->remove(writer->dir, PIECES_FILE);
}

bool writer_pieces_inherit(struct trace_writer *writer, const struct trace_writer *before)
{
	for (size_t i = 0; i < before->pieces.count; i++) {
		struct writer_piece piece = before->pieces.items[i];

		piece.sizes = NULL; /* writer_complete cuts the files */
		if (!insert_piece(writer, i, piece))
			return false;
	}
	return insert_piece(writer, before->pieces.count, last_piece(before));
}

/* ---- pieces --------------------------------------------------------------------------------- */

void writer_pieces_free(struct trace_writer *writer)
{
	for (size_t i = 0; i < writer->pieces.count; i++)
		free(writer->pieces.items[i].sizes);
	vec_free(&writer->pieces);
}

/* A file that can't be cut stays whole packets. */
void writer_pieces_trim(const struct trace_writer *writer)
{
	for (size_t i = 0; i < writer->pieces.count; i++) {
		const struct writer_piece *piece = &writer->pieces.items[i];

		for (uint64_t file = piece->first; file < piece->end && piece->sizes; file++) {
			char name[WRITER_NAME_SIZE];

			writer_file_name(piece->part, file, name);
			_cleanup_close_ int fd = writer->dir->open(writer->dir, name, false);
			if (fd >= 0 && ftruncate(fd, (off_t)piece->sizes[file - piece->first]))
				continue;
		}
	}
}

/* Appends the sizes of the current files to the first `count` of `sizes`. NULL: out of memory. */
static uint64_t *add_sizes(const struct trace_writer *writer, uint64_t *sizes, uint64_t count)
{
	uint64_t *longer = realloc(sizes, (count + writer->lanes.count) * sizeof(*sizes));

	for (size_t i = 0; longer && i < writer->lanes.count; i++)
		longer[count + i] = writer->lanes.items[i].size;
	return longer;
}

/* Adds the current piece to the older ones; false: out of memory. */
static bool add_piece(struct trace_writer *writer)
{
	struct writer_piece piece = { .part = writer->part.number,
				      .first = writer->lane_base,
				      .end = writer->lane_base + writer->lanes.count,
				      .bytes = current_bytes(writer),
				      .events = writer->piece_events,
				      .payload = writer->piece_payload };
	struct writer_piece *last = writer->pieces.count ? vec_last(&writer->pieces) : NULL;

	if (!last || is_bounded(writer) || last->part != piece.part || last->end != piece.first) {
		piece.sizes = add_sizes(writer, NULL, 0);
		if (piece.sizes && vec_push(&writer->pieces, piece))
			return true;
		free(piece.sizes);
		return false;
	}
	uint64_t *sizes = add_sizes(writer, last->sizes, last->end - last->first);
	if (!sizes)
		return false;
	last->sizes = sizes;
	last->end = piece.end;
	last->bytes += piece.bytes;
	last->events += piece.events;
	last->payload += piece.payload;
	return true;
}

/* Closes the files of the current piece, which no packet goes to any more (W5). */
static struct error *end_piece(struct trace_writer *writer)
{
	struct error *error = NULL;

	while (writer->open_count && !error)
		error = writer_close_one(writer);
	if (!error && !add_piece(writer))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error)
		return error;
	writer->lane_base += writer->lanes.count;
	writer->lanes.count = 0;
	writer->piece_events = writer->piece_payload = 0;
	for (size_t i = 0; i < writer->streams.count; i++)
		writer->streams.items[i].lane = WRITER_NO_LANE;
	return write_notes(writer);
}

/* A file that is gone already was removed before a kill, or by the user. */
static struct error *remove_oldest(struct trace_writer *writer)
{
	struct writer_piece *oldest = &writer->pieces.items[0];
	char name[WRITER_NAME_SIZE];
	int removed;

	assert(oldest->part != writer->part.number || oldest->end <= writer->lane_base); /* W5 */
	for (uint64_t i = oldest->first; i < oldest->end; i++) {
		writer_file_name(oldest->part, i, name);
		removed = writer->dir->remove(writer->dir, name);
		if (removed && removed != -ENOENT)
			return error_errno(-removed, "cannot remove '%s/%s'", writer->directory,
					   name);
	}
	writer->removed.pieces++;
	writer->removed.events += oldest->events;
	writer->removed.bytes += oldest->payload;
	free(oldest->sizes);
	memmove(oldest, oldest + 1, --writer->pieces.count * sizeof(*oldest));
	return NULL;
}

/* Counts pieces that have files: all older ones, or those of its own part. */
static void count_pieces(const struct trace_writer *writer, bool only_own, uint64_t *count,
			 uint64_t *bytes)
{
	for (size_t i = 0; i < writer->pieces.count; i++) {
		const struct writer_piece *piece = &writer->pieces.items[i];

		if (piece->first == piece->end ||
		    (only_own && piece->part != writer->part.number))
			continue;
		*count += 1;
		*bytes += piece->bytes;
	}
}

static bool is_over(const struct trace_writer *writer, uint64_t need)
{
	uint64_t count = 0, bytes = current_bytes(writer) + need;

	count_pieces(writer, false, &count, &bytes);
	if (writer->after) {
		count_pieces(writer->after, true, &count, &bytes);
		count += writer->after->lanes.count > 0;
		bytes += current_bytes(writer->after);
	}
	if (writer->limits.max_files && count >= writer->limits.max_files)
		return true;
	return writer->limits.max_size && bytes > size_limit(writer);
}

static bool is_time_over(struct trace_writer *writer)
{
	uint64_t now = writer->limits.rotate_ns ? now_ns() : 0;

	if (!writer->limits.rotate_ns || now < writer->piece_end)
		return false;
	writer->piece_end += (now - writer->piece_end) / writer->limits.rotate_ns *
				     writer->limits.rotate_ns + writer->limits.rotate_ns;
	return true;
}

struct error *writer_rotate(struct trace_writer *writer, uint64_t need)
{
	bool is_due = is_time_over(writer);
	bool has_removed = false;
	struct error *error = NULL;

	need = need ? writer_whole_pages(need) + WRITER_PAGE : 0;
	is_due |= writer->limits.max_size && current_bytes(writer) + need > piece_limit(writer);
	if (is_due && writer->lanes.count)
		error = end_piece(writer);
	while (!error && is_over(writer, need)) {
		if (!writer->pieces.count && writer->after && writer->lanes.count)
			error = end_piece(writer); /* the next part's files are newer */
		if (error || !writer->pieces.count)
			break;
		error = remove_oldest(writer);
		has_removed = true;
	}
	return error || !has_removed ? error : write_notes(writer);
}

bool writer_has_room(const struct trace_writer *writer, uint64_t need)
{
	return !writer->after || !is_over(writer, writer_whole_pages(need) + WRITER_PAGE);
}

static bool has_piece(const struct trace_writer *writer, const struct writer_piece *wanted)
{
	for (size_t i = 0; i < writer->pieces.count; i++) {
		const struct writer_piece *piece = &writer->pieces.items[i];

		if (piece->part == wanted->part && piece->first == wanted->first)
			return true;
	}
	return false;
}

/* Forgets the files that `after` has removed since it began. */
static void forget_removed(struct trace_writer *writer, const struct trace_writer *after)
{
	const struct writer_piece last = last_piece(writer);
	size_t kept = 0;

	for (size_t i = 0; i < writer->pieces.count; i++) {
		if (has_piece(after, &writer->pieces.items[i]))
			writer->pieces.items[kept++] = writer->pieces.items[i];
		else
			free(writer->pieces.items[i].sizes);
	}
	writer->pieces.count = kept;
	if (has_piece(after, &last))
		return;
	assert(!writer->streams.count && !writer->open_count);
	writer->lane_base += writer->lanes.count;
	writer->lanes.count = 0;
}

struct error *writer_limit_before(struct trace_writer *before, const struct trace_writer *after,
				  const struct writer_limits *limits)
{
	before->limits = *limits;
	before->limits.rotate_ns = 0; /* its time is over */
	before->after = after;
	if (after)
		forget_removed(before, after);
	return writer_rotate(before, 0);
}

struct error *writer_note_before(struct trace_writer *writer, struct trace_writer *before)
{
	size_t kept = 0;

	before->after = NULL;
	for (size_t i = 0; i < writer->pieces.count; i++) {
		if (writer->pieces.items[i].part == writer->part.number)
			writer->pieces.items[kept++] = writer->pieces.items[i];
		else
			free(writer->pieces.items[i].sizes);
	}
	writer->pieces.count = kept;
	if (!writer_pieces_inherit(writer, before))
		return error_new(ERROR_FAILED, "out of memory");
	writer->removed.pieces += before->removed.pieces;
	writer->removed.events += before->removed.events;
	writer->removed.bytes += before->removed.bytes;
	struct error *error = is_bounded(writer) ? write_notes(writer) : NULL;
	return error ? error : writer_rotate(writer, 0);
}

struct error *writer_tick(struct trace_writer *writer)
{
	return writer->limits.rotate_ns ? writer_rotate(writer, 0) : NULL;
}

/* ---- free space ----------------------------------------------------------------------------- */

static struct error *say_full(const struct trace_writer *writer)
{
	return error_new(ERROR_FULL,
			 "only %" PRIu64 " KiB are left on the file system of '%s': recording stopped "
			 "(make room, or bound traces with --max-size)",
			 writer->space_left >> 10, writer->directory);
}

/* Sets space_left; false: the file system doesn't tell. */
static bool look_at_space(struct trace_writer *writer, int fd, uint64_t *ret_reserve)
{
	struct statvfs st;

	if (fstatvfs(fd, &st) || !st.f_blocks)
		return false;
	uint64_t reserve = (uint64_t)st.f_blocks * st.f_frsize / SPACE_SHARE;
	writer->space_left = (uint64_t)st.f_bavail * st.f_frsize;
	*ret_reserve = reserve > SPACE_RESERVE ? SPACE_RESERVE : reserve;
	return true;
}

struct error *writer_check_space(struct trace_writer *writer, int fd, uint64_t need)
{
	uint64_t now = now_ns(), reserve;

	if (writer->is_full)
		return say_full(writer);
	if (writer->bytes + need <= writer->space_until && now < writer->space_look)
		return NULL;
	writer->space_look = now + SPACE_LOOK_NS;
	writer->space_until = UINT64_MAX;
	if (!look_at_space(writer, fd, &reserve) ||
	    (writer->space_left < reserve + need && writer_give_blocks(writer) &&
	     !look_at_space(writer, fd, &reserve)))
		return NULL;
	writer->is_full = writer->space_left < reserve + need;
	if (writer->is_full)
		return say_full(writer);
	writer->space_until = writer->bytes + (writer->space_left - reserve) / 4;
	return NULL;
}
