/*
 * image_fields.h - describe an image, the values of one hit (tracers/code/foreign_code.h), to
 * libraries in the target.
 *
 * Members of structs become fields of their own, outer_inner. Pure.
 */
#ifndef DYNTRACE_IMAGE_FIELDS_H
#define DYNTRACE_IMAGE_FIELDS_H

#include "shared/bridge.h"
#include "control/event/event.h"

#define IMAGE_START 16u /* offset of the first field that has no fixed offset */

/* Describes the image's first word. */
struct dt_bridge_field image_fields_address(void);
/* Adds the fields of an event after the first `before`, up to `room` in all, and makes their names
 * unique. Returns the number added. */
uint32_t image_fields_add(const struct event_type *type, struct dt_bridge_field *fields,
			  uint32_t before, uint32_t room);

#endif
