/*
 * lttng_session.h - rules of LTTng's recording sessions, made by running `lttng`: it knows the
 * current session, and the session daemon of the user.
 */
#ifndef DYNTRACE_LTTNG_SESSION_H
#define DYNTRACE_LTTNG_SESSION_H

#include <stdbool.h>

#include "control/base/error.h"
#include "control/base/strbuf.h"
#include "control/base/vec.h"

/* True inside `dyntrace lttng`: events are LTTng's unless the user says otherwise. */
extern bool lttng_session_is_default;

/* Where a rule goes. NULL: as lttng chooses. */
struct lttng_session {
	const char *session, *channel;
	const char *loglevel; /* of the rule: events at least that severe */
	bool only; /* that level alone */
};

/* Rules that were made. */
struct lttng_rules {
	VEC(char *) events; /* PROVIDER:NAME */
	struct strbuf said; /* by lttng */
};
void lttng_rules_free(struct lttng_rules *rules);

/* Makes the session record the event PROVIDER:NAME. A rule that exists is no error. */
struct error *lttng_session_enable(const struct lttng_session *where, const char *event,
				   struct lttng_rules *rules);
/* Undoes that, as far as LTTng can: the rules are off. */
void lttng_session_undo(const struct lttng_session *where, const struct lttng_rules *rules);

#endif
