/*
 * report_tree.c - call paths: from the first call down, and from each function up to its callers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "options/table_text.h"
#include "report.h"

#define SHARE_MIN 0.001 /* paths below are left out */
#define INDENT_MAX 100
#define CALLERS_DEPTH 16

struct printing {
	const struct report *report;
	struct strbuf *text;
	uint64_t whole; /* ns that are 100% */
	uint64_t least; /* ns that are shown */
	uint64_t left; /* calls that aren't */
	uint64_t *known; /* downward: ns per node; see find_known */
	bool has_open; /* a row has calls that have no duration */
};

static void add_row(struct printing *p, uint64_t total, uint64_t self, uint64_t calls,
		    unsigned depth, const char *name)
{
	report_time(p->text, true, total, 10);
	quote_format(p->text, "%7.1f%%", p->whole ? (double)total * 100 / (double)p->whole : 0.0);
	report_time(p->text, true, self, 10);
	quote_format(p->text, "%10" PRIu64 "  ", calls);
	for (unsigned i = 0; i < depth && i < INDENT_MAX; i++)
		text_add(p->text, "  ");
	quote_format(p->text, "%s\n", name);
}

static void add_last(const struct printing *p)
{
	if (p->left)
		quote_format(p->text, "(%" PRIu64 " call%s in paths below 0.1%% %s left out: "
			     "--all-rows)\n", p->left, p->left == 1 ? "" : "s",
			     p->left == 1 ? "is" : "are");
	if (p->report->has_folded)
		quote_format(p->text, "(paths deeper than 200 calls, or beyond 200,000, are part of "
			     "the call around them)\n");
	report_notes(p->report, p->text);
}

/* ---- downward ------------------------------------------------------------------------------- */

struct child {
	uint64_t total;
	uint32_t node;
};

static int by_total(const void *a, const void *b)
{
	const struct child *x = a, *y = b;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static uint64_t calls_below(const struct report *report, uint32_t node)
{
	uint64_t calls = report->nodes.items[node].calls;

	for (uint32_t i = report->nodes.items[node].first; i; i = report->nodes.items[i].next)
		calls += calls_below(report, i);
	return calls;
}

static void add_children(struct printing *p, uint32_t parent, unsigned depth)
{
	const struct report_node *nodes = p->report->nodes.items;
	VEC(struct child) children = { 0 };

	for (uint32_t i = nodes[parent].first; i; i = nodes[i].next)
		if (!vec_push(&children, (struct child){ p->known[i], i }))
			p->text->failed = true;
	if (children.count)
		qsort(children.items, children.count, sizeof(*children.items), by_total);
	for (size_t i = 0; i < children.count; i++) {
		const struct report_node *node = &nodes[children.items[i].node];

		if (children.items[i].total < p->least) {
			p->left += calls_below(p->report, children.items[i].node);
			continue;
		}
		p->has_open |= !node->calls && children.items[i].total;
		add_row(p, children.items[i].total, node->self, node->calls, depth,
			p->report->functions.items[node->function].name);
		add_children(p, children.items[i].node, depth + 1);
	}
	vec_free(&children);
}

/* The time of each path: its calls' durations, or what was inside it if that is more, as calls that
 * haven't ended have none: `main` of a program that ends by exit(). */
static bool find_known(struct printing *p)
{
	const struct report_node *nodes = p->report->nodes.items;
	size_t count = p->report->nodes.count;

	p->known = calloc(count + 1, sizeof(*p->known));
	for (size_t i = count; p->known && i-- > 0;) { /* a node comes after its parent */
		p->known[i] += nodes[i].self;
		if (p->known[i] < nodes[i].total)
			p->known[i] = nodes[i].total;
		if (i)
			p->known[nodes[i].parent] += p->known[i];
	}
	return p->known != NULL;
}

void report_tree(const struct report *report, const struct report_options *options,
		 struct strbuf *text)
{
	struct printing p = { .report = report, .text = text };

	if (!find_known(&p)) {
		text->failed = true;
		return;
	}
	p.whole = p.known[0];
	p.least = options->all_rows ? 0 : (uint64_t)((double)p.whole * SHARE_MIN);
	quote_format(text, "%10s%8s%10s%10s  call tree\n", "total", "share", "self", "calls");
	add_children(&p, 0, 0);
	if (p.has_open)
		text_add(text, "(calls without a duration: the time of the calls inside them)\n");
	add_last(&p);
	free(p.known);
}

/* ---- upward --------------------------------------------------------------------------------- */

/* A path's self time, and the node that is now looked at on its way up. */
struct climb {
	uint32_t at;
	uint64_t self, total, calls;
};

static int by_function(const void *a, const void *b, void *context)
{
	const struct report_node *nodes = context;
	uint32_t x = nodes[((const struct climb *)a)->at].function,
		 y = nodes[((const struct climb *)b)->at].function;

	return x < y ? -1 : x > y;
}

/* Sums of neighbours with one function. */
struct group {
	size_t from, to;
	uint64_t self, total, calls;
};

static int by_self(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	return x->from < y->from ? -1 : 1;
}

/* Prints the functions of the climbs' nodes, and above each of them its callers. */
static void add_level(struct printing *p, struct climb *climbs, size_t count, unsigned depth)
{
	struct report_node *nodes = p->report->nodes.items;
	VEC(struct group) groups = { 0 };

	qsort_r(climbs, count, sizeof(*climbs), by_function, nodes);
	for (size_t i = 0; i < count; i++) {
		if ((!i || by_function(&climbs[i], &climbs[i - 1], nodes)) &&
		    !vec_push(&groups, (struct group){ .from = i })) {
			p->text->failed = true;
			break;
		}
		struct group *group = vec_last(&groups);
		group->to = i + 1;
		group->self += climbs[i].self;
		group->total += climbs[i].total;
		group->calls += climbs[i].calls;
	}
	if (groups.count)
		qsort(groups.items, groups.count, sizeof(*groups.items), by_self);
	for (size_t i = 0; i < groups.count && !p->text->failed; i++) {
		struct group group = groups.items[i];
		size_t kept = 0;

		if (group.self < p->least) {
			p->left += group.calls;
			continue;
		}
		const char *name =
			p->report->functions.items[nodes[climbs[group.from].at].function].name;
		report_time(p->text, true, group.self, 10);
		quote_format(p->text, "%7.1f%%%10" PRIu64 "  ",
			     p->whole ? (double)group.self * 100 / (double)p->whole : 0.0,
			     group.calls);
		for (unsigned d = 0; d < depth; d++)
			text_add(p->text, "  ");
		quote_format(p->text, "%s%s\n", depth ? "< " : "", name);
		_cleanup_free_ struct climb *up = calloc(group.to - group.from, sizeof(*up));
		for (size_t j = group.from; up && j < group.to; j++) {
			up[kept] = climbs[j];
			up[kept].at = nodes[climbs[j].at].parent;
			kept += up[kept].at != 0;
		}
		if (kept && depth < CALLERS_DEPTH)
			add_level(p, up, kept, depth + 1);
	}
	vec_free(&groups);
}

void report_callers(const struct report *report, const struct report_options *options,
		    struct strbuf *text)
{
	struct printing p = { .report = report, .text = text };
	size_t count = report->nodes.count;
	_cleanup_free_ struct climb *climbs = calloc(count + 1, sizeof(*climbs));
	size_t used = 0;

	for (size_t i = 1; climbs && i < count; i++) {
		const struct report_node *node = &report->nodes.items[i];

		if (!node->calls)
			continue;
		climbs[used++] = (struct climb){ (uint32_t)i, node->self, node->total,
						 node->calls };
		p.whole += node->self;
	}
	p.least = options->all_rows ? 0 : (uint64_t)((double)p.whole * SHARE_MIN);
	quote_format(text, "%10s%8s%10s  function, and its callers\n", "self", "share", "calls");
	if (used)
		add_level(&p, climbs, used, 0);
	add_last(&p);
}
