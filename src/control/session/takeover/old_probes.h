/*
 * old_probes.h - what a session keeps of a dead controller's, until its own tracepoints are in their
 * place (takeover.h).
 */
#ifndef DYNTRACE_OLD_PROBES_H
#define DYNTRACE_OLD_PROBES_H

#include "control/patch/patch.h"

struct session;
struct old_probes;

/* Before new sites are placed: with the old ones that go in the same stop behind them. The list
 * may be another one afterwards. */
struct error *old_probes_join(struct session *session, struct patch_site ***patches, size_t *count);
/* Whatever is left of the old goes now: it is in the way. */
struct error *old_probes_yield(struct session *session);
/* The target isn't touched. */
void old_probes_free(struct session *session);

#endif
