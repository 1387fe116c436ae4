/*
 * hit_line.c - a hit's line: the text of control/lines/event_line.c, made of the image of the
 * values (foreign_code.h) without libc.
 */
#include "lines.h"

#include "shared/program.h"

#pragma GCC diagnostic ignored "-Wframe-larger-than="

#define NS 1000000000u
#define DAY 86400
#define ENDING 4u /* bytes of the end of a cut line, "...\n" */

/* The place of the next value in an image, and what the line has so far. */
struct hit_walk {
	const struct dt_line *line;
	const uint8_t *image;
	uint64_t at;
	struct hit_text *text;
	bool is_first; /* no member of this compound is there yet */
	bool has_items;
	/* lists around the item: number of their item, elements to come */
	struct {
		uint32_t item, left;
	} lists[DT_LISTS_MAX];
	uint32_t depth;
};

static const char *words_at(const struct dt_line *line, uint64_t offset)
{
	return (const char *)line + line->text + offset;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t load(const uint8_t *from, uint32_t size)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < size && i < sizeof(value); i++)
		value |= (uint64_t)from[i] << 8 * i;
	return value;
}

static int64_t sign_extend(uint64_t value, uint32_t size)
{
	uint32_t shift = 64 - 8 * size;

	return (int64_t)(value << shift) >> shift;
}

/* Adds the value's name, if it has one. True: the number follows, in parentheses. */
static bool add_label(struct hit_walk *walk, const struct dt_line_item *item, int64_t value,
		      bool *ret_is_over)
{
	const struct dt_line_label *labels =
		(const struct dt_line_label *)((const uint8_t *)walk->line + walk->line->labels);

	for (uint32_t i = 0; i < item->label_count; i++) {
		const struct dt_line_label *label = &labels[item->label_first + i];

		if (label->value != value)
			continue;
		hit_text_bytes(walk->text, words_at(walk->line, label->name), label->length);
		*ret_is_over = label->is_note;
		if (!label->is_note)
			hit_text_add(walk->text, " (");
		return true;
	}
	return false;
}

static void add_number(struct hit_walk *walk, const struct dt_line_item *item)
{
	uint64_t value = load(walk->image + walk->at, item->size);
	bool is_signed = item->kind == DT_LINE_INT, is_over = false;
	int64_t number = is_signed ? sign_extend(value, item->size) : (int64_t)value;
	bool has_label = add_label(walk, item, number, &is_over);

	walk->at += item->size;
	if (is_over)
		return;
	if (item->kind == DT_LINE_REAL)
		hit_real(walk->text, value, item->size);
	else if (item->kind == DT_LINE_HEX)
		hit_text_hex(walk->text, value);
	else if (is_signed)
		hit_text_signed(walk->text, number);
	else
		hit_text_unsigned(walk->text, value);
	if (has_label)
		hit_text_add(walk->text, ")");
}

/* ---- items ----------------------------------------------------------------------------------- */

static void separate(struct hit_walk *walk)
{
	if (walk->is_first)
		hit_text_add(walk->text, " ");
	else
		hit_text_add(walk->text, ", ");
	walk->is_first = false;
}

static void add_key(struct hit_walk *walk, const struct dt_line_item *item)
{
	if (!walk->has_items)
		hit_text_add(walk->text, " {");
	walk->has_items = true;
	separate(walk);
	if (item->is_element)
		return;
	hit_text_bytes(walk->text, words_at(walk->line, item->key), item->key_length);
	hit_text_add(walk->text, " = ");
}

static void add_open(struct hit_walk *walk, char kind)
{
	hit_text_bytes(walk->text, &kind, 1);
	walk->is_first = true;
}

static void add_close(struct hit_walk *walk, char kind)
{
	if (!walk->is_first)
		hit_text_add(walk->text, " ");
	hit_text_bytes(walk->text, &kind, 1);
	walk->is_first = false;
}

static void align(struct hit_walk *walk, const struct dt_line_item *item)
{
	walk->at = item->offset ? item->offset :
				  DT_ROUND_UP(walk->at, item->size ? item->size : 1u);
}

static void add_string(struct hit_walk *walk, const struct dt_line_item *item)
{
	const char *start = (const char *)walk->image + walk->at;
	uint64_t length = 0;

	while (length < DT_EVENT_SIZE_MAX && start[length])
		length++;
	walk->at += length + 1;
	if (!length && item->omits_empty)
		return;
	add_key(walk, item);
	hit_text_quoted(walk->text, start, length);
}

static void add_frames(struct hit_walk *walk, const struct dt_line_item *item)
{
	walk->at = DT_ROUND_UP(walk->at, 4);
	uint64_t count = load(walk->image + walk->at, 4);

	walk->at = DT_ROUND_UP(walk->at + 4, 8);
	add_key(walk, item);
	add_open(walk, '[');
	for (uint64_t i = 0; i < count && i < DT_EVENT_SIZE_MAX / 8; i++, walk->at += 8) {
		separate(walk);
		hit_text_hex(walk->text, load(walk->image + walk->at, 8));
	}
	add_close(walk, ']');
}

static void add_numbers(struct hit_walk *walk, const struct dt_line_item *item)
{
	align(walk, item);
	add_key(walk, item);
	if (!item->count) {
		add_number(walk, item);
		return;
	}
	add_open(walk, '[');
	for (uint32_t i = 0; i < item->count; i++) {
		separate(walk);
		add_number(walk, item);
	}
	add_close(walk, ']');
}

static void add_item(struct hit_walk *walk, const struct dt_line_item *item)
{
	switch (item->kind) {
	case DT_LINE_STRING: add_string(walk, item); break;
	case DT_LINE_FRAMES: add_frames(walk, item); break;
	case DT_LINE_OPEN:
		align(walk, item);
		add_key(walk, item);
		add_open(walk, '{');
		break;
	case DT_LINE_CLOSE: add_close(walk, '}'); break;
	default: add_numbers(walk, item);
	}
}

/* ---- lists ----------------------------------------------------------------------------------- */

static const struct dt_line_item *item_at(const struct dt_line *line, uint32_t number)
{
	return (const struct dt_line_item *)((const uint8_t *)line + line->items) + number;
}

/* The number of the item that ends the list. */
static uint32_t find_end(const struct dt_line *line, uint32_t number)
{
	uint32_t inside = 0;

	for (number++; number + 1 < line->item_count; number++) {
		uint8_t kind = item_at(line, number)->kind;

		if (kind == DT_LINE_LIST_END && !inside--)
			break;
		inside += kind == DT_LINE_LIST;
	}
	return number;
}

/* Gives the number of the next item: the first of the list, or its end if it is empty. */
static uint32_t begin_list(struct hit_walk *walk, uint32_t number)
{
	const struct dt_line_item *item = item_at(walk->line, number);

	walk->at = DT_ROUND_UP(walk->at, 4);
	uint32_t count = (uint32_t)load(walk->image + walk->at, 4);

	walk->at = DT_ROUND_UP(walk->at + 4, item->size ? item->size : 1u);
	add_key(walk, item);
	add_open(walk, '[');
	if (walk->depth < DT_LISTS_MAX && count && count <= DT_LIST_TURNS_MAX) {
		walk->lists[walk->depth].item = number;
		walk->lists[walk->depth++].left = count - 1;
		return number + 1;
	}
	add_close(walk, ']');
	return find_end(walk->line, number) + 1;
}

/* Gives the number of the next item: the list's first, as long as there are elements. */
static uint32_t end_element(struct hit_walk *walk, uint32_t number)
{
	if (walk->depth && walk->lists[walk->depth - 1].left) {
		walk->lists[walk->depth - 1].left--;
		return walk->lists[walk->depth - 1].item + 1;
	}
	walk->depth -= walk->depth > 0;
	add_close(walk, ']');
	return number + 1;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* "09:12:33.123456789 (+0.000001234) ": local time, and the time since the line before. */
static void add_time(const struct dt_line *line, struct hit_text *text)
{
	struct dt_line_output *output = (struct dt_line_output *)line->output;
	uint64_t now = sys_clock_ns(0); /* CLOCK_REALTIME */
	uint64_t last = __atomic_exchange_n(&output->last, now, __ATOMIC_RELAXED);
	uint64_t delta = now < last ? last - now : now - last;
	uint32_t second = (uint32_t)((now / NS + DAY + (uint64_t)(int64_t)line->utc_offset) % DAY);

	hit_text_padded(text, second / 3600, 2);
	hit_text_add(text, ":");
	hit_text_padded(text, second / 60 % 60, 2);
	hit_text_add(text, ":");
	hit_text_padded(text, second % 60, 2);
	hit_text_add(text, ".");
	hit_text_padded(text, now % NS, 9);
	if (!last) {
		hit_text_add(text, " (+?.????????\?) ");
		return;
	}
	if (now < last)
		hit_text_add(text, " (-");
	else
		hit_text_add(text, " (+");
	hit_text_unsigned(text, delta / NS);
	hit_text_add(text, ".");
	hit_text_padded(text, delta % NS, 9);
	hit_text_add(text, ") ");
}

static void make_text(const struct dt_line *line, const uint8_t *image, struct hit_text *text)
{
	struct hit_walk walk = { .line = line, .image = image, .at = line->start,
				 .text = text, .is_first = true };
	uint32_t next = 0;

	add_time(line, text);
	hit_text_bytes(text, words_at(line, line->process), line->process_length);
	hit_text_add(text, " tid ");
	hit_text_unsigned(text, sys_gettid());
	hit_text_add(text, " ");
	hit_text_bytes(text, words_at(line, line->name), line->name_length);
	while (next < line->item_count && !text->is_cut) {
		const struct dt_line_item *item = item_at(line, next);

		if (item->kind == DT_LINE_LIST) {
			next = begin_list(&walk, next);
		} else if (item->kind == DT_LINE_LIST_END) {
			next = end_element(&walk, next);
		} else {
			add_item(&walk, item);
			next++;
		}
	}
	if (walk.has_items)
		hit_text_add(text, " }");
}

uint64_t hit_line(const struct dt_line *line, const uint8_t *image, uint64_t mask,
		  uint64_t *deadline)
{
	const struct dt_control *control = (const struct dt_control *)line->control;
	const struct dt_line_output *output = (const struct dt_line_output *)line->output;
	char bytes[DT_LINE_MAX];
	struct hit_text text = { bytes, 0, DT_LINE_MAX - ENDING, false };
	bool wait = !__atomic_load_n(&output->expired, __ATOMIC_RELAXED) &&
		    (!*deadline || sys_now_ns() < *deadline);

	if (agent_flags(control) & DT_NO_LINES || agent_is_orphan(control)) {
		hit_leave_out(line, agent_is_orphan(control) ? DT_LINE_ALONE : DT_LINE_FENCED);
		return 0;
	}
	make_text(line, image, &text);
	bool is_cut = text.is_cut;
	text.room = DT_LINE_MAX;
	text.is_cut = false;
	if (is_cut)
		hit_text_add(&text, "...");
	hit_text_add(&text, "\n");
	return hit_write(line, bytes, text.length, mask, wait);
}

void hit_refuse(const struct dt_line *line)
{
	hit_leave_out(line, agent_is_quiet((const struct dt_control *)line->control) ?
				    DT_LINE_FENCED :
				    DT_LINE_FULL);
}
