/* lookback.c - looks at its own code as Mono's runtime does: at the call before a return address,
 * and at the jump that the call leads to. Prints how often it found what it looked for. Built by a
 * test. */
#include <stdint.h>
#include <stdio.h>

int mono_aot_file_info;
int found;

__attribute__((used)) void look(const uint8_t *after_call)
{
	int32_t distance;

	if (after_call[-5] != 0xe8)
		return;
	__builtin_memcpy(&distance, after_call - 4, sizeof(distance));
	found += (after_call + distance)[0] == 0xff;
}

/* caller: its call is among the bytes that a jump at its start needs. entry: of the linkage
 * table. */
__asm__(".text\n"
	".globl caller\n.type caller, @function\ncaller:\n"
	"sub $8, %rsp\ncall entry\nadd $8, %rsp\nret\n.size caller, .-caller\n"
	".globl entry\n.type entry, @function\nentry:\njmp *slot(%rip)\n.long 0\n.size entry, .-entry\n"
	".type looker, @function\nlooker:\nmov (%rsp), %rdi\nsub $8, %rsp\ncall look\nadd $8, %rsp\nret\n"
	".size looker, .-looker\n"
	".data\nslot: .quad looker\n.text\n");

void caller(void);

int main(void)
{
	for (int i = 0; i < 100; i++)
		caller();
	printf("%d\n", found);
	return 0;
}
