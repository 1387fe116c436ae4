#include "leftovers.h"

#include "options/commands.h"

void leftovers_note(const struct proc *proc, const struct takeover *takeover)
{
	char text[TAKEOVER_TEXT];

	if (!takeover->found)
		return;
	takeover_describe(proc, takeover, text);
	cli_note("%s", text);
}
