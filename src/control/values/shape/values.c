#include "values.h"

#include <stdlib.h>

void values_free(struct values *values)
{
	event_fields_free(values->fields, values->field_count);
	event_fields_free(values->exit_fields, values->exit_field_count);
	free(values->program);
	free(values->filter);
	free(values->native_key);
	free(values->exit);
	free(values->exit_program);
	free(values->exit_filter);
	*values = (struct values){ 0 };
}
