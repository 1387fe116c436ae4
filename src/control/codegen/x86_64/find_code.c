#include "control/codegen/find_code.h"

#include "shared/layout.h"
#include "control/codegen/record_code.h"

void find_emit(struct emitter *e, const struct tramp_env *env, bool keep_red_zone)
{
	struct emit_row saved;
	struct label no = { 0 };

	emit_note(e, "is the address in our code? ask the agent");
	emit_mov_imm(e, RBX, env->control.v);
	emit_call_mem(e, mem_at(RBX, (int32_t)offsetof(struct dt_control, find)));
	emit_or(e, RAX, RAX);
	emit_jcc(e, CC_E, &no);
	emit_note(e, "then return the agent's answer");
	emit_store(e, mem_at(RSP, record_saved_at(RAX)), RAX);
	saved = e->row;
	record_emit_restore(e, keep_red_zone);
	emit_ret(e);
	emit_bind(e, &no);
	emit_row(e, saved.depth, saved.origin, saved.kept);
}
