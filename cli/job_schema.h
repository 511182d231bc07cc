/* SPDX-License-Identifier: Apache-2.0
 *
 * For the files of the schema of job files: how a row names the member that its value goes to. */
#ifndef EST_CLI_JOB_SCHEMA_H
#define EST_CLI_JOB_SCHEMA_H

#include <stddef.h>

#include "job.h"

/* The place of a member, for a field of the struct that RECORD is defined as. */
#define AT(member) offsetof(RECORD, member), sizeof(((RECORD *)0)->member)

#define ALWAYS "!" /* job_field.required: for all types */

extern const job_record job_model_record;
extern const job_word   job_combiners[];

#endif
