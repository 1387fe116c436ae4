/*
 * /proc/PID/maps, status and stat as any text. The kernel writes them, but names in them are the
 * target's. The first byte chooses the file.
 */
#include "fuzz.h"

#include "control/proc/proc.h"
#include "control/proc/proc_status.h"

static void read_maps(char *text)
{
	struct maps maps = { 0 };
	struct error *error = maps_parse(text, &maps);

	for (size_t i = 0; i < maps.count; i++) {
		const struct mapping *found = maps_find(&maps, maps.items[i].start);

		REQUIRE(maps.items[i].path);
		REQUIRE(!found || (found >= maps.items && found < maps.items + maps.count));
		REQUIRE(!found || (found->start.v <= maps.items[i].start.v &&
				   maps.items[i].start.v < found->end.v));
	}
	maps_find(&maps, taddr_of(UINT64_MAX));
	REQUIRE(!error || !maps.count);
	error_free(error);
	maps_free(&maps);
}

static void read_stat(const char *text)
{
	struct thread_stat stat;

	if (proc_status_parse_stat(text, &stat)) {
		REQUIRE(memchr(stat.comm, 0, sizeof(stat.comm)));
		REQUIRE(stat.state);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	uint8_t which = fuzz_byte(&input) % 3;
	char *text = fuzz_text(&input);

	if (which == 0)
		read_maps(text);
	else if (which == 1)
		read_stat(text);
	else
		proc_status_parse(text);
	free(text);
	return 0;
}
