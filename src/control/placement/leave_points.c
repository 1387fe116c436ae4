/*
 * leave_points.c - see leave_points.h.
 *
 * An indirect jump stays in the function if it goes through a table of distances, as compilers
 * write them: movslq (table, index, 4), add, jmp; or through a table of addresses:
 * jmp *table(, index, 8). Any other may leave the function. A jump to the function's own start
 * begins another call.
 *
 * GCC moves unlikely code to a piece of its own, NAME.cold, which jumps lead to.
 */
#include "leave_points.h"

#include <assert.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/code/prescan.h"
#include "go_prologue.h"
#include "planner.h"

#define PIECES_MAX 4

struct piece {
	uint64_t start, end;
};

struct search {
	struct planner *planner;
	const struct module_view *view;
	const char *name; /* of the function; NULL: unknown */
	struct piece pieces[PIECES_MAX];
	size_t piece_count;
	bool is_go; /* Go code: goroutines may be parked anywhere */
	bool begins_anew; /* its stack check comes back to its start (go_prologue.h) */
	struct leave_points points;
};

static bool add_point(struct search *search, uint64_t at, uint32_t kind)
{
	taddr address = taddr_add(search->view->module->bias, (int64_t)at);

	return vec_push(&search->points, (struct leave_point){ address, kind });
}

/* Is the address in the function, or in a piece that belongs to it? */
static bool is_inside(struct search *search, uint64_t address)
{
	uint64_t start, end;

	for (size_t i = 0; i < search->piece_count; i++) {
		if (address - search->pieces[i].start <
		    search->pieces[i].end - search->pieces[i].start)
			return search->begins_anew || address != search->pieces[0].start;
	}
	const struct symbol *symbol = symtab_at(search->view->symtab, address);
	size_t length = search->name ? strlen(search->name) : 0;

	if (!length || !symbol || strncmp(symbol->name, search->name, length) != 0 ||
	    strncmp(symbol->name + length, ".cold", 5) != 0 || search->piece_count == PIECES_MAX ||
	    !function_bounds(search->view, symbol, address, &start, &end))
		return false;
	search->pieces[search->piece_count++] = (struct piece){ start, end };
	return true;
}

/* The last two instructions. */
struct lead_in {
	struct prescan before[2]; /* [0] is the nearest */
};

static bool is_by_table(const struct search *search, const struct lead_in *lead,
			const struct prescan *jump)
{
	const struct prescan *add = &lead->before[0], *load = &lead->before[1];

	/* Go: jmp *(table, index, 8) */
	if (search->is_go && PRESCAN_MOD(jump) == 0 && PRESCAN_RM(jump) == 4 &&
	    PRESCAN_SCALE(jump) == 3)
		return true;
	/* jmp *table(, index, 8) */
	if (PRESCAN_MOD(jump) == 0 && PRESCAN_RM(jump) == 4 && PRESCAN_SCALE(jump) == 3 &&
	    (jump->sib & 7) == 5)
		return true;
	return PRESCAN_MOD(jump) == 3 &&
	       ((add->kind == PRESCAN_ADD && PRESCAN_MOD(add) == 3) || add->kind == PRESCAN_LEA) &&
	       load->kind == PRESCAN_MOVSXD && PRESCAN_MOD(load) != 3 && PRESCAN_RM(load) == 4 &&
	       PRESCAN_SCALE(load) == 2;
}

static struct error *judge(struct search *search, const struct prescan *insn,
			   const struct lead_in *lead)
{
	bool added = true;

	switch (insn->flow) {
	case FLOW_RETURN:
		added = add_point(search, insn->pc.v, DT_SITE_RETURN);
		break;
	case FLOW_JUMP:
		if (!is_inside(search, insn->target.v))
			added = add_point(search, insn->pc.v, DT_SITE_JUMP);
		break;
	case FLOW_JUMP_INDIRECT:
		if (!is_by_table(search, lead, insn))
			added = add_point(search, insn->pc.v, DT_SITE_JUMP);
		break;
	case FLOW_BRANCH:
		if (!is_inside(search, insn->target.v))
			return error_new(ERROR_REFUSED, "a conditional jump leads out of it");
		break;
	default:
		break;
	}
	return added ? NULL : error_new(ERROR_FAILED, "out of memory");
}

static struct error *unknown_code(void)
{
	return error_new(ERROR_REFUSED, "not all of its code is known");
}

static bool ends_flow(enum insn_flow flow)
{
	return flow != FLOW_NEXT && flow != FLOW_BRANCH;
}

/* Go's compiler writes a nop behind a call that doesn't return, so that the return address is in
 * the function. */
static bool pads_call(const struct search *search, const struct prescan *insn, enum insn_flow last)
{
	return search->is_go && last == FLOW_CALL && insn->kind == PRESCAN_PADDING;
}

/* Reads all instructions of a piece; a call may be its last one, if it doesn't return. */
static struct error *read_piece(struct search *search, const struct piece *piece)
{
	const struct body *body;
	struct lead_in lead = { 0 };
	struct prescan insn = { .flow = FLOW_STOP };
	uint64_t at = piece->start;
	enum insn_flow last = FLOW_STOP;
	struct error *error =
		function_body(search->planner, search->view, NULL, piece->start, &body);

	if (!error && (body->start != piece->start || body->end != piece->end))
		error = unknown_code();
	for (size_t i = 0; !error && i < body->insns.count && body->insns.items[i].at < piece->end;
	     i++) {
		const struct body_insn *item = &body->insns.items[i];
		const uint8_t *bytes = body->text->bytes + (item->at - body->text->address);

		at = item->at + item->length;
		if (item->dead)
			continue;
		if ((item->way == WAY_UNKNOWN && !search->is_go) ||
		    !prescan(bytes, item->length, taddr_of(item->at), &insn))
			return unknown_code();
		error = judge(search, &insn, &lead);
		if (!pads_call(search, &insn, last))
			last = insn.flow;
		lead.before[1] = lead.before[0];
		lead.before[0] = insn;
	}
	if (!error && (at != piece->end || !ends_flow(last)))
		error = unknown_code();
	return error;
}

struct error *leave_points_find(struct planner *planner, const struct place *place,
				struct leave_points *ret_points)
{
	struct module_view *view;
	struct search search = { .planner = planner,
				 .name = place->symbol ? place->symbol->name : NULL };
	uint64_t address = place->address.v - place->module->bias.v;
	struct piece *first = &search.pieces[0];
	struct go_prologue prologue;
	struct error *error = function_view(planner, place->module, &view);

	if (error)
		return error;
	search.view = view;
	if (!function_bounds(view, place->symbol, address, &first->start, &first->end) ||
	    first->start != address)
		return unknown_code();
	search.piece_count = 1;
	search.is_go = go_prologue_is_go_code(view->symtab, address);
	search.begins_anew = search.is_go && go_prologue_read(view->symtab, address, &prologue);
	for (size_t i = 0; i < search.piece_count && !error; i++) {
		struct piece piece = search.pieces[i];

		error = read_piece(&search, &piece);
	}
	if (!error && !search.points.count)
		error = error_new(ERROR_REFUSED, "it has no return");
	if (error) {
		leave_points_free(&search.points);
		return error;
	}
	*ret_points = search.points;
	return NULL;
}

void leave_points_free(struct leave_points *points)
{
	vec_free(points);
}
