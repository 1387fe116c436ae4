/*
 * A trace that a killed controller left, with any bytes in its notes (.events), its metadata and
 * its lanes: they belong to the traced user. The types that are read must be ones that a reader of
 * events can work with, files are cut at whole packets, and the writer can go on.
 *
 * The input: four lengths of 16 bits (notes, metadata, two lanes), then these files. The metadata
 * begins with the right UUID unless the first length is odd.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#include "control/ctf/metadata.h"
#include "control/ctf/writer.h"
#include "shared/layout.h"

#define UUID_TEXT "uuid = \"00010203-0405-0607-0809-0a0b0c0d0e0f\";"
#define LANES 2

enum { NOTES, METADATA, FIRST_LANE, FILES = FIRST_LANE + LANES + 2 };

static int files[FILES]; /* -1: none */
static bool opened[FILES]; /* a lane that .pieces says is gone isn't looked at */

static int find(const char *name)
{
	unsigned lane;

	/* both have lines of four numbers */
	if (!strcmp(name, ".events") || !strcmp(name, ".pieces"))
		return NOTES;
	if (!strncmp(name, "metadata", 8) || !strncmp(name, ".metadata", 9))
		return METADATA;
	return sscanf(name, "stream_%u", &lane) == 1 && lane < FILES - FIRST_LANE ?
		       FIRST_LANE + (int)lane :
		       -1;
}

static int open_file(struct trace_dir *dir, const char *name, bool create)
{
	int which = find(name);

	if (which < 0)
		return create ? -ENOSPC : -ENOENT;
	if (files[which] < 0 && !create)
		return -ENOENT;
	if (files[which] < 0)
		files[which] = memfd_create(name, MFD_CLOEXEC);
	REQUIRE(files[which] >= 0);
	if (create)
		REQUIRE(!ftruncate(files[which], 0));
	opened[which] = true;
	/* a position of its own */
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", files[which]);
	FILE *file = fopen(path, "r+e");
	REQUIRE(file);
	int fd = dup(fileno(file));
	fclose(file);
	return fd;
}

static int move(struct trace_dir *dir, const char *from, const char *to)
{
	return 0;
}

static int leave(struct trace_dir *dir, const char *name)
{
	return 0;
}

static int make(struct trace_dir *dir)
{
	return 0;
}

static void keep(struct trace_dir *dir)
{
}

static void see(void *context, const struct packet_seen *packet)
{
	REQUIRE(packet->begin <= packet->end);
}

/* ---- judgement ------------------------------------------------------------------------------- */

static void check_types(const struct event_types *types)
{
	static const uint64_t event[DT_EVENT_SIZE_MAX / 8];

	for (size_t i = 0; i < types->count; i++) {
		const struct event_type *type = &types->items[i];

		REQUIRE(type->id == i && i < DT_EVENTS_MAX);
		REQUIRE(type->size % 8 == 0 && type->size <= DT_EVENT_SIZE_MAX);
		REQUIRE(event_measure(type, event, sizeof(event)) <= sizeof(event));
		for (size_t j = 0; j < type->field_count; j++)
			REQUIRE(type->is_variable || !type->size ||
				event_field_end(&type->fields[j]) <= type->size);
	}
}

/* Only whole packets are left of a lane that was read. */
static void check_lane(int fd)
{
	struct metadata_packet head;
	struct stat st;
	uint64_t at = 0;

	REQUIRE(!fstat(fd, &st));
	while (at < (uint64_t)st.st_size) {
		REQUIRE(pread(fd, &head, sizeof(head), (off_t)at) == sizeof(head));
		REQUIRE(head.magic == METADATA_MAGIC && head.packet_size / 8 >= sizeof(head));
		at += head.packet_size / 8;
		REQUIRE(at <= (uint64_t)st.st_size);
	}
}

static void go_on(struct trace_writer *writer)
{
	uint64_t event = 0;
	struct packet packet = { .begin = 1000, .end = 1000, .events = &event, .size = 8 };

	for (uint64_t stream = 0; stream < 3; stream++)
		error_free(writer_packet(writer, stream, &packet));
	writer_end_stream(writer, 1);
	error_free(writer_complete(writer));
	for (int i = FIRST_LANE; i < FILES; i++)
		if (opened[i])
			check_lane(files[i]);
	error_free(writer_suspend(writer));
}

/* ---- input ----------------------------------------------------------------------------------- */

static void make_file(int which, struct fuzz_input *input, uint16_t length, const char *begin)
{
	size_t size = length < input->size ? length : input->size;

	files[which] = memfd_create("file", MFD_CLOEXEC);
	REQUIRE(files[which] >= 0);
	REQUIRE(write(files[which], begin, strlen(begin)) == (ssize_t)strlen(begin));
	REQUIRE(write(files[which], input->bytes, size) == (ssize_t)size);
	input->bytes += size;
	input->size -= size;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	struct trace_dir dir = { .path = "fuzz",
				 .make = make,
				 .open = open_file,
				 .rename = move,
				 .remove = leave,
				 .free = keep };
	struct writer_part part = { .number = 0 };
	struct event_types types = { 0 };
	struct trace_writer *writer = NULL;
	uint16_t lengths[2 + LANES] = { 0 };

	for (int i = 0; i < 16; i++)
		part.uuid[i] = (uint8_t)i;
	for (int i = 0; i < FILES; i++) {
		files[i] = -1;
		opened[i] = false;
	}
	fuzz_take(&input, lengths, sizeof(lengths));
	make_file(NOTES, &input, lengths[0], "");
	make_file(METADATA, &input, lengths[1], lengths[0] % 2 ? "" : UUID_TEXT);
	for (int i = 0; i < LANES && lengths[2 + i]; i++)
		make_file(FIRST_LANE + i, &input, lengths[2 + i], "");
	struct error *error = writer_reopen_in(&dir, &part, &types, see, NULL, &writer);
	REQUIRE(!error == !!writer);
	error_free(error);
	check_types(&types);
	if (writer)
		go_on(writer);
	event_types_free(&types);
	for (int i = 0; i < FILES; i++)
		if (files[i] >= 0)
			close(files[i]);
	return 0;
}
