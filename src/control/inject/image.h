/*
 * image.h - the agent's file, ready to be mapped by hand. Private to inject/.
 *
 * The agent keeps to its law (src/target/README.md): no imports, no relocations, no writable data. What doesn't is refused.
 */
#ifndef DYNTRACE_INJECT_IMAGE_H
#define DYNTRACE_INJECT_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"

#define IMAGE_SEGMENTS_MAX 8

struct image {
	uint8_t *bytes; /* by address, from 0 */
	size_t size; /* whole pages */
	struct {
		uint64_t start, end; /* whole pages that are to be executable */
	} text[IMAGE_SEGMENTS_MAX];
	size_t text_count;
	uint64_t slow; /* address of dt_slow */
};

struct error *image_load(const char *path, struct image *ret_image);
void image_free(struct image *image);

#endif
