#include "vec.h"

#include <stdint.h>

bool vec_grow(void **items, size_t *room, size_t count, size_t more, size_t item_size)
{
	size_t wanted = count + more;

	if (wanted <= *room)
		return true;
	if (wanted < count || wanted > SIZE_MAX / 2 / item_size)
		return false;
	if (wanted < *room * 2)
		wanted = *room * 2;
	if (wanted < 8)
		wanted = 8;
	void *grown = realloc(*items, wanted * item_size);
	if (!grown)
		return false;
	*items = grown;
	*room = wanted;
	return true;
}
