/*
 * metrics.h - what the daemon's tracepoints have counted, in the text format of Prometheus, which
 * node_exporter's textfile collector and OpenMetrics readers take.
 *
 * Asks the daemon as any client: the text has what the client's user may list. Prints nothing.
 */
#ifndef DYNTRACE_METRICS_H
#define DYNTRACE_METRICS_H

#include "client.h"
#include "control/base/strbuf.h"

/* Appends all metrics. A process that ends meanwhile is left out. */
struct error *metrics_collect(struct client *client, struct strbuf *text);
/* Replaces the file by rename; readers see the old text or the new one. */
struct error *metrics_write(const char *path, const struct strbuf *text);

#endif
