/*
 * export.h - the formats that a trace can be written in.
 *
 * In the child: appends to a strbuf, and writes it out whenever it has become long.
 */
#ifndef DYNTRACE_EXPORT_H
#define DYNTRACE_EXPORT_H

#include "cli/report/report.h"

#define EXPORT_KEPT_MAX (256u << 10)

struct exporting {
	struct view_reader *reader;
	const struct own_traces *traces;
	struct strbuf text; /* not written yet */
	int write_error; /* errno; 0: none */
	bool is_damaged;
};

/* Writes the text out if there is much of it. False: failed, and there is no point in more. */
bool export_flush(struct exporting *exporting, bool always);

/* Formats. Each reads all events. */
struct error *export_folded(struct exporting *exporting);
struct error *export_csv(struct exporting *exporting);
struct error *export_perfetto(struct exporting *exporting);
struct error *export_flamegraph(struct exporting *exporting);
struct error *export_speedscope(struct exporting *exporting);

#endif
