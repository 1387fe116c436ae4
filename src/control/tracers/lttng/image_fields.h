/*
 * image_fields.h - what is where in an image (tracers/code/foreign_code.h): for libraries in the target
 * that look at it.
 *
 * Members of structs are fields of their own there, outer_inner. Pure.
 */
#ifndef DYNTRACE_IMAGE_FIELDS_H
#define DYNTRACE_IMAGE_FIELDS_H

#include "shared/bridge.h"
#include "control/event/event.h"

#define IMAGE_START 16u /* where fields begin whose place isn't known before */

/* The image's first word. */
struct dt_bridge_field image_fields_address(void);
/* The fields of an event, behind the `before` that are there, up to `room`; each has a name of its
 * own. Returns how many. */
uint32_t image_fields_add(const struct event_type *type, struct dt_bridge_field *fields,
			  uint32_t before, uint32_t room);

#endif
