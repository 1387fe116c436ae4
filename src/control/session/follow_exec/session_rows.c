#include "session_rows.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/session/processes/follow_state.h"
#include "control/tracers/count/count_tracer.h"

static struct error *add_session(const struct session *session, bool takes,
				 struct count_rows *rows)
{
	_cleanup_(count_rows_free) struct count_rows more = { 0 };
	struct error *error = count_rows_read(session, takes, &more);

	return error ? error : count_rows_add(rows, &more);
}

static bool copy_row(const struct count_row *from, struct count_row *row)
{
	*row = *from;
	memset(row->names, 0, sizeof(row->names));
	row->values = (struct distribution){ 0 };
	for (size_t i = 0; i < QUESTION_KEYS_MAX && from->names[i]; i++) {
		row->names[i] = strdup(from->names[i]);
		if (!row->names[i])
			return false;
	}
	return distribution_merge(&row->values, &from->values);
}

static struct error *copy_rows(const struct count_rows *from, struct count_rows *ret_rows)
{
	struct count_rows rows = { .has_values = from->has_values, .is_time = from->is_time };

	for (size_t i = 0; i < from->rows.count; i++) {
		struct count_row row = { 0 };
		bool copied = copy_row(&from->rows.items[i], &row);

		if (!vec_push(&rows.rows, row) || !copied) {
			count_rows_free(&rows);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	*ret_rows = rows;
	return NULL;
}

/* Of exec sessions that are over. */
static struct error *add_past(struct count_rows *past, bool takes, struct count_rows *rows)
{
	_cleanup_(count_rows_free) struct count_rows copy = { 0 };
	struct error *error = takes ? NULL : copy_rows(past, &copy);

	return error ? error : count_rows_add(rows, takes ? past : &copy);
}

struct error *session_rows(struct session *session, bool takes, struct count_rows *ret_rows)
{
	struct count_rows rows = { 0 };
	struct error *error = count_rows_read(session, takes, &rows);

	for (size_t i = 0; session->follow && i < session->follow->execs.count && !error; i++)
		error = add_session(session->follow->execs.items[i].session, takes, &rows);
	if (!error)
		error = add_past(&session->count->past, takes, &rows);
	if (error)
		count_rows_free(&rows);
	else
		*ret_rows = rows;
	return error;
}
