/*
 * lines.h - declarations that the files of this folder share.
 *
 * All of it runs on a stack of the agent's, with every signal blocked, except hit_wait.
 */
#ifndef DYNTRACE_LINES_H
#define DYNTRACE_LINES_H

#include "shared/hit_line.h"
#include "target/agent_parts.h"

#define HIT_AGAIN 1 /* hit_line: nothing is written yet, for lack of room */

/* A line that is being made. Text beyond its room is cut. */
struct hit_text {
	char *bytes;
	uint32_t length, room;
	bool is_cut;
};

/* hit_text.c */
void hit_text_bytes(struct hit_text *text, const char *bytes, uint64_t count);
void hit_text_unsigned(struct hit_text *text, uint64_t value);
void hit_text_signed(struct hit_text *text, int64_t value);
void hit_text_hex(struct hit_text *text, uint64_t value);
/* With zeros in front: 000042. */
void hit_text_padded(struct hit_text *text, uint64_t value, uint32_t digits);
/* In quotes, with the escapes of C; as quote_c of control/base. */
void hit_text_quoted(struct hit_text *text, const char *bytes, uint64_t count);
/* A literal. */
#define hit_text_add(text, literal) hit_text_bytes(text, literal, sizeof(literal) - 1)

/* hit_real.c: the shortest text that reads back as the same float (4 bytes) or double. */
void hit_real(struct hit_text *text, uint64_t bits, uint32_t size);

/* hit_write.c: writes the line; 0: done, written or counted (I11), HIT_AGAIN. `wait`: there is
 * still time to wait for room. */
uint64_t hit_write(const struct dt_line *line, const char *bytes, uint32_t length, uint64_t mask,
		   bool wait);
void hit_leave_out(const struct dt_line *line, enum dt_line_reason reason);

/* hit_line.c: from x86_64/hit_line.S. `mask`: the thread's own; *deadline is 0 at first. */
uint64_t hit_line(const struct dt_line *line, const uint8_t *image, uint64_t mask,
		  uint64_t *deadline);
/* hit_write.c: waits for room, on the thread's own stack. */
void hit_wait(const struct dt_line *line, uint64_t *deadline);
/* hit_line.c: counts a hit whose line can't be made. */
void hit_refuse(const struct dt_line *line);

#endif
