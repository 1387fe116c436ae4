/*
 * text.c - strings of the target as text of an event.
 *
 * A trace is UTF-8. Other bytes become \xNN. The text itself says if memory can't be read or a
 * string has no end:
 *
 *	(null)			no string
 *	(unreadable 0x1f)	nothing there
 *	abc...			cut
 *	(unreadable)		its address couldn't be read
 *	abc(unreadable)		only its beginning could be read
 */
#include "gather.h"

#include "target/signals/loads.h"

#define PIECE 256u
#define MATCH_MAX 992u
#define MARK_ROOM 32u
#define ESCAPE 4u /* \xNN */
#define NAME_SIZE 16u /* of a thread, by prctl */

static void put_byte(struct gather *g, char byte)
{
	if (g->event && !g->over && g->at < g->program->size_max)
		g->event[g->at++] = (uint8_t)byte;
}

static void put_text(struct gather *g, const char *text)
{
	for (; *text; text++)
		put_byte(g, *text);
}

static void put_digits(struct gather *g, uint64_t value, uint32_t digits)
{
	while (digits-- > 0)
		put_byte(g, "0123456789abcdef"[value >> digits * 4 & 15]);
}

static void put_unreadable(struct gather *g, uint64_t address)
{
	uint32_t digits = 1;

	if (g->failed) { /* nobody could read where the text is */
		put_text(g, "(unreadable)");
		return;
	}
	while (digits < 16 && address >> digits * 4)
		digits++;
	put_text(g, "(unreadable 0x");
	put_digits(g, address, digits);
	put_text(g, ")");
}

/* Bytes of the UTF-8 character there; 0: none; more than `left`: it continues beyond. */
static uint32_t character(const uint8_t *at, uint32_t left)
{
	uint32_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 :
			at[0] < 0xf5 ? 4 : 0;

	for (uint32_t i = 1; i < size; i++) {
		if (i == left)
			return size;
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	}
	if (size == 3 && left >= 2 &&
	    ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0)))
		return 0;
	if (size == 4 && left >= 2 &&
	    ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90)))
		return 0;
	return size;
}

#define CHARACTER_MOST 4u /* bytes of UTF-8 */

/* Unaligned: the agent has no alignment check on (H2). */
struct text_word {
	uint64_t word;
} __attribute__((packed, may_alias));

/* Copies characters up to `end` or a NUL; gives the bytes used, and whether the text has ended. */
static uint32_t put_characters(struct gather *g, const uint8_t *bytes, uint32_t count, bool counted,
			       bool last, uint32_t limit, bool *ret_over)
{
	uint32_t used = 0;

	*ret_over = false;
	while (used < count) {
		uint32_t size = character(bytes + used, count - used);
		bool escaped = size == 0 || size > count - used || (bytes[used] == 0 && counted);

		if (bytes[used] == 0 && !counted) {
			*ret_over = true;
			return used;
		}
		if (size > count - used && !last)
			break;
		if (g->at + (escaped ? ESCAPE : size) > limit)
			break;
		if (escaped) {
			put_text(g, "\\x");
			put_digits(g, bytes[used], 2);
			used++;
			continue;
		}
		for (uint32_t i = 0; i < size; i++)
			put_byte(g, (char)bytes[used + i]);
		used += size;
	}
	return used;
}

#define ONES 0x0101010101010101ULL
#define HIGHS 0x8080808080808080ULL

static uint32_t first_byte(uint64_t highs)
{
	return highs ? (uint32_t)__builtin_ctzll(highs) / 8 : 8;
}

/*
 * Copies ASCII characters, eight at a time, from memory that plain loads may read. Loads each byte
 * once, since another thread may write it. Stops at the first byte that put_characters has to look
 * at, or that can't be read, and before a page's end (X14). Gives the number of bytes; *ret_over: a
 * NUL follows them.
 */
static uint32_t put_ascii(struct gather *g, uint64_t address, uint64_t length, uint32_t limit,
			  bool *ret_over)
{
	uint64_t direct = read_cache_direct(g, address);

	if (!direct && g->loads)
		direct = loads_known(g->control, address);
	uint64_t left = DT_PAGE - (address & (DT_PAGE - 1)), most = length < left ? length : left;
	uint32_t done = 0, count = 8;

	most = most < direct ? most : direct;

	while (count == 8 && done + 8 <= most && g->at + 8 <= limit) {
		uint64_t word;

		if (!loads_word(address + done, &word))
			break;
		/* the lowest bit is right; higher ones may be set by a borrow */
		uint32_t nul = first_byte((word - ONES) & ~word & HIGHS);

		count = first_byte(word & HIGHS);
		*ret_over = nul < count;
		count = nul < count ? nul : count;
		if (count == 8)
			((struct text_word *)(g->event + g->at))->word = word;
		for (uint32_t i = 0; i < count && count < 8; i++)
			g->event[g->at + i] = (uint8_t)(word >> 8 * i);
		g->at += count;
		done += count;
	}
	/* the next time the trampoline may read it, an empty text, too */
	loads_note(g->control, address, done + *ret_over);
	return done;
}

/* Copies piece by piece, up to its end, the limit, or unreadable memory. */
static void put_string(struct gather *g, uint64_t address, uint64_t length, bool counted,
		       uint32_t limit)
{
	uint8_t piece[PIECE];
	bool over = false, goes_on = false;
	uint64_t done = put_ascii(g, address, length, limit, &over);

	while (done < length && !(over && !counted)) {
		uint64_t left = length - done;
		uint32_t want = left < PIECE ? (uint32_t)left : PIECE;
		uint32_t least = !goes_on ? 1 : want < CHARACTER_MOST ? want : CHARACTER_MOST;
		uint32_t got = read_cache_read(g, address + done, piece, least, want);
		bool last = got == left || got < least;
		uint32_t used;

		if (got == 0 && done == 0)
			put_unreadable(g, address);
		else if (got == 0)
			put_text(g, "(unreadable)");
		if (got == 0)
			return;
		used = put_characters(g, piece, got, counted, last, limit, &over);
		done += used;
		if (over || done >= length)
			return;
		/* a character goes on behind these bytes, perhaps on the next page */
		goes_on = !last && used < got &&
			  character(piece + used, got - used) > got - used;
		if (used < got && !goes_on) {
			put_text(g, "...");
			return;
		}
		done += put_ascii(g, address + done, length - done, limit, &over);
	}
}

void text_store(struct gather *g, uint64_t address, uint64_t length, bool counted, uint32_t most)
{
	uint32_t limit;

	if (!g->event || g->over || most + MARK_ROOM > g->program->size_max - g->at)
		return;
	limit = g->at + most;
	if (!address && length)
		put_text(g, "(null)");
	else if (length)
		put_string(g, address, length, counted, limit);
	put_byte(g, 0);
}

/* ---- wide characters ------------------------------------------------------------------------- */

#define SURROGATES 0xd800u
#define LOW_SURROGATES 0xdc00u
#define BEHIND_SURROGATES 0xe000u
#define WIDE_ROOM 10u /* bytes that one character becomes, at most */

static bool is_surrogate(uint32_t code)
{
	return code >= SURROGATES && code < BEHIND_SURROGATES;
}

/* Appends as UTF-8; what is no character, and a NUL in a counted text, as its number. */
static void put_code(struct gather *g, uint32_t code)
{
	uint32_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;

	if (is_surrogate(code) || code > 0x10ffff) {
		put_text(g, "\\x");
		put_digits(g, code, code > 0xffff ? 8 : 4);
		return;
	}
	if (!code) {
		put_text(g, "\\x00");
		return;
	}
	if (more == 0) {
		put_byte(g, (char)code);
		return;
	}
	put_byte(g, (char)(0xff00 >> (more + 1) | code >> 6 * more));
	while (more-- > 0)
		put_byte(g, (char)(0x80 | (code >> 6 * more & 0x3f)));
}

/* A pair of surrogates is one character; *high: the first of a pair, until the second comes. */
static void put_unit(struct gather *g, uint32_t code, uint32_t size, uint32_t *high)
{
	uint32_t first = *high;

	*high = 0;
	if (first && code >= LOW_SURROGATES && code < BEHIND_SURROGATES) {
		put_code(g, 0x10000 + ((first - SURROGATES) << 10) + (code - LOW_SURROGATES));
		return;
	}
	if (first)
		put_code(g, first);
	if (size == 2 && is_surrogate(code) && code < LOW_SURROGATES)
		*high = code;
	else
		put_code(g, code);
}

/* `length`: in characters; UINT64_MAX: up to a NUL. Remark after the text; NULL: none. */
static const char *put_wide(struct gather *g, uint64_t address, uint32_t size, uint64_t length,
			    uint32_t limit)
{
	uint32_t piece[PIECE / sizeof(uint32_t)], high = 0;
	bool is_counted = length != UINT64_MAX;

	while (length) {
		uint32_t got = read_cache_read(g, address, piece, size, PIECE) / size;

		if (got == 0) {
			if (high)
				put_code(g, high);
			return "(unreadable)";
		}
		for (uint32_t i = 0; i < got && length; i++, length--) {
			uint32_t code = size == 2 ? ((const uint16_t *)piece)[i] : piece[i];

			if (!code && !is_counted)
				length = 1;
			else if (g->at + 2 * WIDE_ROOM > limit)
				return "...";
			else
				put_unit(g, code, size, &high);
		}
		address += (uint64_t)got * size;
	}
	if (high)
		put_code(g, high);
	return NULL;
}

void text_store_wide(struct gather *g, uint64_t address, uint32_t size, uint64_t length,
		     uint32_t most)
{
	uint32_t start = g->at;
	const char *mark;

	if (!g->event || g->over || most + MARK_ROOM > g->program->size_max - g->at)
		return;
	mark = address || !length ? put_wide(g, address, size, length, g->at + most) : "(null)";
	if (mark && address && g->at == start)
		put_unreadable(g, address);
	else if (mark)
		put_text(g, mark);
	put_byte(g, 0);
}

#define DIGITS 18u /* of one division */
#define DIGITS_POWER 1000000000000000000ULL

/* Divides a number of 128 bits; gives the rest. */
static uint64_t divide(uint64_t *low, uint64_t *high, uint64_t by)
{
	uint64_t rest = *high % by;

	*high /= by;
	__asm__("divq %2" : "+a"(*low), "+d"(rest) : "r"(by) : "cc"); /* rest < by: no overflow */
	return rest;
}

void text_store_number(struct gather *g, uint64_t low, uint64_t high, bool is_signed)
{
	char digits[3 * DIGITS];
	bool is_negative = is_signed && high >> 63;
	uint32_t count = 0;

	if (!g->event || g->over || sizeof(digits) > g->program->size_max - g->at)
		return;
	if (g->failed) {
		put_text(g, "(unreadable)");
		put_byte(g, 0);
		return;
	}
	if (is_negative) {
		low = 0 - low;
		high = ~high + !low;
		put_byte(g, '-');
	}
	while (count < sizeof(digits) && (count == 0 || low || high)) {
		uint64_t part = divide(&low, &high, DIGITS_POWER);

		for (uint32_t i = 0; i < DIGITS && (i == 0 || part || low || high); i++) {
			digits[count++] = (char)('0' + part % 10);
			part /= 10;
		}
	}
	while (count > 0)
		put_byte(g, digits[--count]);
	put_byte(g, 0);
}

/* The name is on the agent's own stack: read without a call, which a filter may forbid. */
static void put_name(struct gather *g, const char name[NAME_SIZE])
{
	uint32_t length = 0, limit = g->at + NAME_SIZE;
	bool over;

	while (length < NAME_SIZE - 1 && name[length])
		length++;
	if (put_characters(g, (const uint8_t *)name, length, false, true, limit, &over) < length)
		put_text(g, "...");
}

void text_store_comm(struct gather *g)
{
	char name[NAME_SIZE] = { 0 };
	uint32_t pid;

	if (!g->event || g->over || NAME_SIZE + MARK_ROOM > g->program->size_max - g->at)
		return;
	if (agent_flags(g->control) & DT_NO_NAME || !agent_begin_call(g->control, &pid)) {
		put_text(g, "(unreadable)");
	} else {
		sys_call3(SYS_PRCTL, SYS_PR_GET_NAME, (uint64_t)name, 0);
		agent_end_call(g->control, pid);
		put_name(g, name);
	}
	put_byte(g, 0);
}

void text_store_unreadable(struct gather *g)
{
	const char *name = (const char *)(g->program->ops + g->program->op_count);
	const char *end = name + g->program->text_size;
	bool any = false;

	for (uint32_t field = 0; field < DT_PROGRAM_FIELDS_MAX && name < end; field++) {
		bool listed = g->unreadable[field / 64] >> field % 64 & 1;

		if (listed && any && g->at + 3 < g->program->size_max)
			put_text(g, ", ");
		any |= listed;
		for (; *name; name++) {
			if (listed && g->at + 1 < g->program->size_max)
				put_byte(g, *name);
		}
		name++;
	}
	put_byte(g, 0);
}

/* ---- matching -------------------------------------------------------------------------------- */

/* [abc], [a-z], [!a]; *ret_end: after the set. A set without an end is a plain character. */
static bool match_set(const char *pattern, char c, const char **ret_end)
{
	const char *at = pattern + 1;
	bool negated = *at == '!' || *at == '^', found = false;

	at += negated;
	for (bool first = true; *at && (*at != ']' || first); first = false) {
		if (at[1] == '-' && at[2] && at[2] != ']') {
			found |= c >= at[0] && c <= at[2];
			at += 3;
		} else {
			found |= *at++ == c;
		}
	}
	if (!*at) {
		*ret_end = pattern + 1;
		return c == '[';
	}
	*ret_end = at + 1;
	return found != negated;
}

static bool match_one(const char *pattern, char c, const char **ret_next)
{
	*ret_next = pattern + 1;
	if (*pattern == '?')
		return true;
	if (*pattern == '[')
		return match_set(pattern, c, ret_next);
	if (*pattern == '\\' && pattern[1]) {
		*ret_next = pattern + 2;
		return pattern[1] == c;
	}
	return *pattern == c;
}

static bool match_glob(const char *pattern, const char *text)
{
	const char *star = NULL, *again = NULL, *next;

	while (*text) {
		if (*pattern == '*') {
			star = ++pattern;
			again = text;
		} else if (*pattern && match_one(pattern, *text, &next)) {
			pattern = next;
			text++;
		} else if (star) {
			pattern = star;
			text = ++again;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool match_exact(const char *pattern, const char *text)
{
	while (*pattern && *pattern == *text)
		pattern++, text++;
	return *pattern == *text;
}

static bool has_end(const char *text, uint64_t length)
{
	for (uint64_t i = 0; i < length; i++) {
		if (!text[i])
			return true;
	}
	return false;
}

bool text_match(struct gather *g, uint64_t address, uint64_t length, const char *pattern, bool glob,
		bool *ret_failed)
{
	char text[MATCH_MAX];
	uint64_t most = length < sizeof(text) ? length : sizeof(text) - 1;
	uint64_t got = 0;

	while (address && got < most && !has_end(text, got)) {
		uint32_t more =
			read_cache_read(g, address + got, text + got, 1, (uint32_t)(most - got));

		if (!more)
			break;
		got += more;
	}

	*ret_failed = got == 0 && most;
	text[got] = 0;
	return !*ret_failed && (glob ? match_glob : match_exact)(pattern, text);
}
