#include "daemon_call.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>

const char *daemon_call_socket;

struct error *daemon_call_connect(struct client **ret_client)
{
	return client_connect(daemon_call_socket, ret_client);
}

struct wire_out *daemon_call_begin(struct client *client, enum wire_kind kind, const char *target,
				   bool all)
{
	struct wire_out *out = client_out(client);

	wire_begin(out, kind, 0);
	wire_text(out, WIRE_TARGET, target);
	if (all)
		wire_number(out, WIRE_ALL, 1);
	return out;
}

struct items {
	daemon_item_fn item;
	void *context;
};

static struct error *take_answer(void *context, const struct wire_message *answer)
{
	struct items *items = context;

	if (answer->kind == WIRE_NOTE) {
		const char *text = wire_get_text(answer, WIRE_NOTE_TEXT);

		cli_note("%s", text ? text : "");
	}
	if (answer->kind == WIRE_ITEM && items->item)
		return items->item(items->context, answer);
	return NULL;
}

struct error *daemon_call_finish(struct client *client, daemon_item_fn item, void *context)
{
	struct items items = { item, context };

	wire_end(client_out(client));
	return client_call(client, take_answer, &items);
}

struct error *daemon_call_request(const struct daemon_request *request, daemon_item_fn item,
				  void *context)
{
	_cleanup_client_ struct client *client = NULL;
	struct error *error = daemon_call_connect(&client);

	if (error)
		return error;
	struct wire_out *out =
		daemon_call_begin(client, request->kind, request->target, request->all);
	for (size_t i = 0; i < sizeof(request->texts) / sizeof(request->texts[0]); i++)
		wire_text(out, request->texts[i].tag, request->texts[i].text);
	return daemon_call_finish(client, item, context);
}

struct error *daemon_call_check_words(const struct words *words, enum daemon_words wanted)
{
	if (wanted == DAEMON_NO_TARGET && words->count)
		return error_new(ERROR_USAGE, "unexpected argument '%s'", words->items[0]);
	if (wanted == DAEMON_ONE_TARGET && words->count != 1)
		return error_new(ERROR_USAGE, "give one TARGET (a pid or a name)");
	if (wanted == DAEMON_ANY_TARGET && words->count > 1)
		return error_new(ERROR_USAGE, "give at most one TARGET (a pid or a name)");
	return NULL;
}

struct error *daemon_call_target(const struct words *words, enum daemon_words wanted,
				 enum wire_kind kind, bool all, daemon_item_fn item, void *context)
{
	struct daemon_request request = { .kind = kind,
					  .target = words->count ? words->items[0] : NULL,
					  .all = all };
	struct error *error = daemon_call_check_words(words, wanted);

	return error ? error : daemon_call_request(&request, item, context);
}

struct error *daemon_call_split(const char *word, const char *what, char **ret_target,
				const char **ret_rest)
{
	const char *colon = strchr(word, ':');

	if (!colon || colon == word || !colon[1])
		return error_new(ERROR_USAGE,
				 "'%s' is not TARGET:%s (a pid or name, a colon, and a %s)", word,
				 what, strcmp(what, "LOC") ? "tracepoint's name" : "location");
	*ret_target = strndup(word, (size_t)(colon - word));
	*ret_rest = colon + 1;
	return *ret_target ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* ---- lists ----------------------------------------------------------------------------------- */

static struct error *add_item(void *context, const struct wire_message *item)
{
	struct daemon_call_list *list = context;

	if (list->json)
		text_add(&list->text, list->count ? ",\n" : "[\n");
	list->add(list, item);
	list->count++;
	return NULL;
}

struct error *daemon_call_list(const struct words *words, enum daemon_words wanted,
			       enum wire_kind kind, bool all, struct daemon_call_list *list)
{
	struct error *error = daemon_call_target(words, wanted, kind, all, add_item, list);

	if (!error && list->json)
		text_add(&list->text, list->count ? "\n]\n" : "[]\n");
	if (!error && !list->json)
		text_align(&list->text);
	if (!error && !text_flush(&list->text))
		error = error_errno(errno, "cannot write the list");
	strbuf_free(&list->text);
	return error;
}

const char *daemon_call_text_of(const struct wire_message *item, enum wire_tag tag)
{
	const char *text = wire_get_text(item, tag);

	return text ? text : "";
}

unsigned long long daemon_call_number_of(const struct wire_message *item, enum wire_tag tag)
{
	return wire_get_number(item, tag, 0);
}

static void add_key(struct strbuf *text, const char *key)
{
	if (text->length && text->text[text->length - 1] != '{')
		text_add(text, ",");
	quote_json(text, key, strlen(key));
	text_add(text, ":");
}

void daemon_call_json_text(struct strbuf *text, const char *key, const char *value)
{
	if (!value)
		return;
	add_key(text, key);
	quote_json(text, value, strlen(value));
}

void daemon_call_json_number(struct strbuf *text, const char *key, uint64_t value)
{
	add_key(text, key);
	text_unsigned(text, value);
}

void daemon_call_json_flag(struct strbuf *text, const char *key, bool value)
{
	add_key(text, key);
	text_add(text, value ? "true" : "false");
}

void daemon_call_json_texts(struct strbuf *text, const char *key, const struct wire_message *item,
			    enum wire_tag tag)
{
	struct wire_value value;
	bool first = true;

	add_key(text, key);
	text_add(text, "[");
	for (size_t at = 0; wire_next(item, &at, &value);) {
		if (value.tag != tag)
			continue;
		text_add(text, first ? "" : ",");
		quote_json(text, value.text, strlen(value.text));
		first = false;
	}
	text_add(text, "]");
}

void daemon_call_user_name(uint64_t uid, char *ret_name, size_t size)
{
	const struct passwd *entry = getpwuid((uid_t)uid);

	if (entry)
		snprintf(ret_name, size, "%s", entry->pw_name);
	else
		snprintf(ret_name, size, "%llu", (unsigned long long)uid);
}
