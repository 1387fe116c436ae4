#include "event.h"

#include <stdlib.h>

void event_types_free(struct event_types *types)
{
	for (size_t i = 0; i < types->count; i++) {
		free(types->items[i].name);
		free(types->items[i].fields);
	}
	free(types->items);
	*types = (struct event_types){ 0 };
}
