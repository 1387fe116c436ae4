/*
 * report_by.c - the key and the value of a call, and its row.
 *
 * A key is bytes: for each word a tag, a length and the value. Texts of keys are made when all
 * calls are counted.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/view/view_filter.h"
#include "control/base/cleanup.h"
#include "report_by.h"
#include "report_keys.h"
#include "shared/layout.h"

#define KEY_MAX 8192
#define OTHERS_MAX (1u << 18) /* different keys beyond the limit that are counted */

/* When calls of a function are counted. */
enum moment { UNKNOWN, AT_ENTRY, AT_EXIT };

struct report_by *report_by_create(const struct question *question, uint64_t keys)
{
	struct report_by *by = calloc(1, sizeof(*by));
	bool failed = !by;

	if (failed)
		return NULL;
	by->question = question;
	by->keys_max = keys;
	for (size_t i = 0; i <= question->key_count; i++) {
		const struct question_word *word = i < question->key_count ? &question->keys[i] :
									     &question->value;

		if (word->text && word->kind == QUESTION_EXPRESSION)
			failed |= !(by->expressions[i] = view_filter_create_value(word->text,
										  &view_filter_own));
	}
	if (!failed)
		return by;
	report_by_free(by);
	return NULL;
}

void report_by_free(struct report_by *by)
{
	if (!by)
		return;
	for (size_t i = 0; i <= QUESTION_KEYS_MAX; i++)
		view_filter_destroy(by->expressions[i]);
	for (size_t i = 0; i < by->rows.count; i++) {
		distribution_free(&by->rows.items[i].values);
		vec_free(&by->rows.items[i].covered);
		free(by->rows.items[i].key);
	}
	distribution_free(&by->other.values);
	vec_free(&by->other.covered);
	vec_free(&by->rows);
	vec_free(&by->moments);
	free(by->table);
	free(by->others);
	free(by->why);
	free(by);
}

/* ---- keys ----------------------------------------------------------------------------------- */

struct key {
	uint8_t bytes[KEY_MAX];
	size_t size;
};

static void add_part(struct key *key, enum key_tag tag, const void *bytes, size_t size)
{
	size_t room = sizeof(key->bytes) - key->size;
	uint16_t length;

	if (room < KEY_HEAD)
		return;
	length = (uint16_t)(size < room - KEY_HEAD ? size : room - KEY_HEAD);
	key->bytes[key->size] = (uint8_t)tag;
	memcpy(key->bytes + key->size + 1, &length, sizeof(length));
	if (length) /* of nothing, there may be no bytes */
		memcpy(key->bytes + key->size + KEY_HEAD, bytes, length);
	key->size += KEY_HEAD + length;
}

static void add_number(struct key *key, enum key_tag tag, uint64_t number)
{
	add_part(key, tag, &number, sizeof(number));
}

static bool find_field(const struct packet_cursor *event, const char *name,
		       struct layout_place *ret_place)
{
	return event && layout_find(event->type, event->event, name, ret_place);
}

static bool find_either(const struct by_call *call, const char *name,
			struct layout_place *ret_place)
{
	return find_field(call->entry, name, ret_place) || find_field(call->exit, name, ret_place);
}

/* Text, or a number as its field shows it. Structures and arrays are no keys. */
static bool add_place(struct key *key, const struct layout_place *place)
{
	const struct layout_field *field = place->field;
	uint64_t number;

	if (field->kind == LAYOUT_STRING) {
		add_part(key, KEY_TEXT, place->bytes, strlen((const char *)place->bytes));
		return true;
	}
	if (field->array != LAYOUT_ONE || field->kind == LAYOUT_STRUCT)
		return false;
	number = layout_number(field, place->bytes);
	const char *label = field->kind == LAYOUT_ENUM ? layout_label(field, number) : NULL;
	if (label)
		add_part(key, KEY_TEXT, label, strlen(label));
	else
		add_number(key, field->kind == LAYOUT_HEX   ? KEY_HEX :
				field->kind == LAYOUT_FLOAT ? (field->size == 4 ? KEY_SINGLE :
									 KEY_DOUBLE) :
				field->is_signed	    ? KEY_SIGNED :
							      KEY_UNSIGNED,
			   number);
	return true;
}

static bool is_unreadable(const struct packet_cursor *event, const char *name)
{
	struct layout_place place;
	size_t length = strlen(name);

	if (!find_field(event, "unreadable", &place) || place.field->role != LAYOUT_UNREADABLE)
		return false;
	for (const char *at = (const char *)place.bytes; (at = strstr(at, name)); at += length)
		if ((at == (const char *)place.bytes || strchr(" ,", at[-1])) &&
		    (!at[length] || strchr(" ,", at[length])))
			return true;
	return false;
}

/* The event whose fields an expression uses; NULL: neither of them. */
static const struct packet_cursor *event_of(struct view_filter *expression,
					    const struct by_call *call)
{
	if (call->entry && view_filter_fits(expression, call->entry))
		return call->entry;
	return call->exit && view_filter_fits(expression, call->exit) ? call->exit : NULL;
}

/* A field alone keeps its form: base 16, labels. */
static bool add_expression(struct report_by *by, size_t index, const struct by_call *call,
			   struct key *key)
{
	static const enum key_tag tags[] = { [FILTER_UNSIGNED] = KEY_UNSIGNED,
					     [FILTER_SIGNED] = KEY_SIGNED,
					     [FILTER_SINGLE] = KEY_SINGLE,
					     [FILTER_DOUBLE] = KEY_DOUBLE };
	const char *text = by->question->keys[index].text;
	const struct packet_cursor *event = event_of(by->expressions[index], call);
	struct filter_value value;
	struct layout_place place;

	if (event && is_unreadable(event, text))
		add_part(key, KEY_UNREADABLE, NULL, 0);
	else if (event && text[0] != '$' && view_filter_place(event, text, &place))
		return add_place(key, &place);
	else if (event && view_filter_value(by->expressions[index], event, &value) &&
		 value.kind == FILTER_TEXT)
		add_part(key, KEY_TEXT, value.text, strlen(value.text));
	else if (event && view_filter_value(by->expressions[index], event, &value))
		add_number(key, tags[value.kind], value.number);
	else if (event || !call->entry)
		add_part(key, KEY_UNKNOWN, NULL, 0); /* a division by 0; no entry */
	else
		return false;
	return true;
}

static bool find_backtrace(const struct by_call *call, struct layout_place *ret_place)
{
	const struct packet_cursor *events[] = { call->entry, call->exit };

	for (size_t i = 0; i < 2; i++) {
		struct layout_walk walk;

		if (!events[i])
			continue;
		walk = layout_walk_event(events[i]->type, events[i]->event);
		while (layout_walk_next(&walk, ret_place))
			if (ret_place->field->role == LAYOUT_BACKTRACE)
				return true;
	}
	return false;
}

static bool add_frames(const struct by_call *call, unsigned first, unsigned most, struct key *key)
{
	uint64_t frames[QUESTION_FRAMES_MAX];
	struct layout_place place;
	unsigned count = 0;

	if (!find_backtrace(call, &place))
		return false;
	for (uint32_t i = first; i < place.count && count < most; i++)
		frames[count++] = layout_number(place.field,
						place.bytes + (size_t)i * place.field->size);
	add_part(key, first ? KEY_CALLER : KEY_FRAMES, frames, count * sizeof(frames[0]));
	return true;
}

static void add_comm(const struct by_call *call, struct key *key)
{
	const struct packet_cursor *event = call->entry ? call->entry : call->exit;
	char name[WRITER_PROCESS_SIZE + 1] = { 0 };
	struct layout_place place;

	if (find_either(call, "comm", &place) && place.field->kind == LAYOUT_STRING) {
		add_place(key, &place);
		return;
	}
	memcpy(name, event->head.procname, WRITER_PROCESS_SIZE);
	const char *text = name[0] ? name :
				     trace_layout_variable(&call->input->layout, "procname");
	add_part(key, KEY_TEXT, text ? text : "", text ? strlen(text) : 0);
}

static bool add_caller(const struct by_call *call, struct key *key)
{
	if (add_frames(call, 1, 1, key))
		return true;
	const char *name = call->caller ? call->caller : "(a function that isn't traced)";
	add_part(key, KEY_TEXT, name, strlen(name));
	return true;
}

/* Appends one word's value; false: the call doesn't have it. */
static bool add_word(struct report_by *by, const struct report *report, size_t index,
		     const struct by_call *call, struct key *key)
{
	const struct question_word *word = &by->question->keys[index];
	const struct packet_cursor *event = call->entry ? call->entry : call->exit;
	const char *name = report->functions.items[call->function].name;
	struct layout_place place;

	switch (word->kind) {
	case QUESTION_FUNCTION: add_part(key, KEY_TEXT, name, strlen(name)); return true;
	case QUESTION_TID: add_number(key, KEY_UNSIGNED, event->head.tid); return true;
	case QUESTION_PID: add_number(key, KEY_UNSIGNED, event->head.pid); return true;
	case QUESTION_COMM: add_comm(call, key); return true;
	case QUESTION_CPU: return find_either(call, "cpu", &place) && add_place(key, &place);
	case QUESTION_RET: return find_field(call->exit, "ret", &place) && add_place(key, &place);
	case QUESTION_CALLER: return add_caller(call, key);
	case QUESTION_BACKTRACE:
		return add_frames(call, 0, word->frames ? word->frames : QUESTION_FRAMES_MAX, key);
	default: return add_expression(by, index, call, key);
	}
}

/* ---- values --------------------------------------------------------------------------------- */

static bool is_of_exit(const struct question_word *word)
{
	return word->text && (word->kind == QUESTION_RET || word->kind == QUESTION_DURATION ||
			      word->kind == QUESTION_SELF);
}

/* The value of a call; false: it has none, or not as a whole number. */
static bool find_value(struct report_by *by, const struct by_call *call, int64_t *ret_value)
{
	const struct question_word *word = &by->question->value;
	struct view_filter *expression = by->expressions[by->question->key_count];
	struct filter_value value;
	struct layout_place place;

	if (!word->text || word->kind == QUESTION_DURATION) {
		*ret_value = (int64_t)call->duration;
		return call->exit || !word->text;
	}
	if (word->kind == QUESTION_SELF) {
		*ret_value = (int64_t)call->self;
		return call->exit && call->entry;
	}
	if (word->kind == QUESTION_RET) {
		if (!find_field(call->exit, "ret", &place) || place.field->array != LAYOUT_ONE ||
		    place.field->kind >= LAYOUT_STRING || place.field->kind == LAYOUT_FLOAT)
			return false;
		*ret_value = (int64_t)layout_number(place.field, place.bytes);
		return true;
	}
	const struct packet_cursor *event = event_of(expression, call);
	if (!event || !view_filter_value(expression, event, &value) || value.kind == FILTER_TEXT ||
	    value.kind == FILTER_SINGLE || value.kind == FILTER_DOUBLE)
		return false;
	*ret_value = (int64_t)value.number;
	return true;
}

/* (O4) Calls are counted when they end, unless all that is asked for is known before. */
static enum moment find_moment(struct report_by *by, const struct by_call *call)
{
	const struct question *question = by->question;
	bool is_late = !question->value.text || is_of_exit(&question->value);

	if (!call->has_exit)
		return AT_ENTRY;
	for (size_t i = 0; i < question->key_count && !is_late; i++)
		is_late = is_of_exit(&question->keys[i]);
	for (size_t i = 0; i <= question->key_count && !is_late; i++)
		is_late = by->expressions[i] &&
			  (!call->entry || !view_filter_fits(by->expressions[i], call->entry));
	return is_late ? AT_EXIT : AT_ENTRY;
}

static enum moment moment_of(struct report_by *by, const struct by_call *call)
{
	while (by->moments.count <= call->function)
		if (!vec_push(&by->moments, UNKNOWN))
			return UNKNOWN;
	uint8_t *moment = &by->moments.items[call->function];
	if (*moment == UNKNOWN)
		*moment = (uint8_t)find_moment(by, call);
	return (enum moment)*moment;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct key *key)
{
	uint64_t hash = dt_bytes_hash(key->bytes, key->size);

	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static bool grow_table(struct report_by *by)
{
	size_t room = by->table_room ? by->table_room * 2 : 256;
	uint32_t *wider = calloc(room, sizeof(*wider));

	if (!wider)
		return false;
	for (size_t i = 0; i < by->rows.count; i++) {
		size_t slot = by->rows.items[i].hash & (room - 1);

		while (wider[slot])
			slot = (slot + 1) & (room - 1);
		wider[slot] = (uint32_t)i + 1;
	}
	free(by->table);
	by->table = wider;
	by->table_room = room;
	return true;
}

/* Counts a key that got no row of its own, once. */
static void count_other(struct report_by *by, uint64_t hash)
{
	size_t room = 2 * OTHERS_MAX, slot = hash & (room - 1);

	if (!by->others && !(by->others = calloc(room, sizeof(*by->others))))
		return;
	while (by->others[slot] && by->others[slot] != hash)
		slot = (slot + 1) & (room - 1);
	if (by->others[slot] || by->other_count > OTHERS_MAX)
		return;
	by->other_count++;
	by->others[slot] = by->other_count <= OTHERS_MAX ? hash : 0;
}

/* (O6) The row of a key; NULL: out of memory. */
static struct by_row *row_of(struct report_by *by, const struct key *key,
			     const struct by_call *call)
{
	uint64_t hash = hash_of(key);

	if (by->rows.count * 2 >= by->table_room && !grow_table(by))
		return NULL;
	size_t slot = hash & (by->table_room - 1);
	for (; by->table[slot]; slot = (slot + 1) & (by->table_room - 1)) {
		struct by_row *row = &by->rows.items[by->table[slot] - 1];

		if (row->hash == hash && row->key_size == key->size &&
		    !memcmp(row->key, key->bytes, key->size))
			return row;
	}
	if (by->rows.count >= by->keys_max) {
		count_other(by, hash);
		return &by->other;
	}
	const struct packet_cursor *event = call->exit ? call->exit : call->entry;
	struct by_row row = { .hash = hash,
			      .key = malloc(key->size + 1),
			      .key_size = key->size,
			      .input = call->input,
			      .when = { event->head.pid, event->cycles } };
	if (!row.key || !vec_push(&by->rows, row)) {
		free(row.key);
		return NULL;
	}
	memcpy(row.key, key->bytes, key->size);
	by->table[slot] = (uint32_t)by->rows.count;
	return vec_last(&by->rows);
}

/* (O5) Adds the part of the duration in which no other call of the row was on the stack. Those that
 * began after this one were inside it. Parts that no open call can tell apart are one. */
static bool add_total(struct by_row *row, const struct by_call *call)
{
	uint64_t inside = 0;

	if (row->thread != call->thread) {
		row->thread = call->thread;
		row->covered.count = 0;
	}
	while (row->covered.count && vec_last(&row->covered)->serial > call->serial)
		inside += row->covered.items[--row->covered.count].duration;
	if (call->duration > inside) /* wraps, as the sum of a distribution */
		row->total = (int64_t)((uint64_t)row->total + call->duration - inside);
	if (row->covered.count && vec_last(&row->covered)->serial > call->outer) {
		vec_last(&row->covered)->duration += call->duration;
		return true;
	}
	return vec_push(&row->covered, (struct by_covered){ call->serial, call->duration });
}

static void leave_out(struct report_by *by, const char *word)
{
	by->left_out++;
	if (!by->why)
		by->why = strdup(word);
}

bool report_by_take(struct report_by *by, const struct report *report, const struct by_call *call)
{
	static struct key key; /* large */
	int64_t value = 0;

	if (moment_of(by, call) != (call->exit ? AT_EXIT : AT_ENTRY))
		return true;
	key.size = 0;
	for (size_t i = 0; i < by->question->key_count; i++)
		if (!add_word(by, report, i, call, &key)) {
			leave_out(by, by->question->keys[i].text);
			return true;
		}
	if (!find_value(by, call, &value)) {
		leave_out(by, by->question->value.text);
		return true;
	}
	struct by_row *row = row_of(by, &key, call);
	if (!row)
		return false;
	bool has_value = call->exit || by->question->value.text;
	by->has_values |= has_value;
	row->hits++;
	if (call->exit && call->entry)
		row->self += call->self;
	else
		row->partial += call->exit != NULL;
	if (has_value && !distribution_add(&row->values, value, 1))
		return false;
	bool is_duration = call->exit && (!by->question->value.text ||
					  by->question->value.kind == QUESTION_DURATION);
	return !is_duration || add_total(row, call);
}

struct error *report_by_error(struct report_by *by)
{
	if (by->rows.count || !by->why)
		return NULL;
	for (size_t i = 0; i <= by->question->key_count; i++) {
		struct error *error = by->expressions[i] ? view_filter_error(by->expressions[i]) :
							   NULL;

		if (error)
			return error_wrap(error, i < by->question->key_count ? "--by" : "--of");
	}
	return error_new(ERROR_FAILED,
			 "no call has '%s' in this trace, or not as one value ('trace -e' records "
			 "ret and duration; -t cpu and -t backtrace record these)", by->why);
}
