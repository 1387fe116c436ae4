/*
 * The lines module_N of a trace, which name the files that `view` looks names up in: one per line
 * of the input. Each address that a line names is printed. (/proc/self/exe is a file with
 * symbols.)
 */
#include <inttypes.h>

#include "fuzz.h"

#include "control/lines/frames.h"
#include "shared/unwind.h"

#define LINES_MAX 64

static void print(struct frames *frames, uint64_t address)
{
	struct strbuf text = { 0 };

	for (uint64_t i = 0; i < 4; i++) {
		struct frames_event event = { i / 2, i % 2 ? UINT64_MAX : 0 };

		frames_print(frames, address, &event, i % 2, &text);
	}
	REQUIRE(text.failed || text.length);
	strbuf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	struct frames *frames = frames_create();
	uint64_t addresses[LINES_MAX] = { 0 };
	char *text = fuzz_text(&input), *save = NULL;
	size_t count = 0;

	REQUIRE(frames);
	for (char *line = strtok_r(text, "\n", &save); line && count < LINES_MAX;
	     line = strtok_r(NULL, "\n", &save)) {
		sscanf(line, "%" SCNx64, &addresses[count++]);
		frames_add(frames, line);
	}
	for (size_t i = 0; i < count; i++) {
		print(frames, addresses[i]);
		print(frames, addresses[i] + 0x1000);
	}
	print(frames, 0);
	print(frames, UINT64_MAX);
	print(frames, DT_FRAME_UNKNOWN);
	frames_free(frames);
	free(text);
	return 0;
}
