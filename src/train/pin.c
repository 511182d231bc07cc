/* SPDX-License-Identifier: Apache-2.0
 *
 * Pinned checkpoints.
 *
 * A saver removes the index of a checkpoint before its data (saver.c, SV4), and gives a step that is saved again
 * another index. So the index is linked first, and the links are complete if the index is still the same file at the
 * end. */
#include "train/pin.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "format/checkpoint.h"

/* The two prefixes of a link: the existing file and the new name. */
typedef struct linking {
    const char *folder, *name; /* of the checkpoint */
    const char *dir;           /* of the links */
} linking;

/* Links one file "<name><suffix>". EST_UNIMPLEMENTED: the file system does not support or allow links. */
static est_status link_one(const linking *l, const char *suffix)
{
    est_strbuf from = { 0 }, to = { 0 };
    est_status status;

    est_strbuf_printf(&from, "%s/%s%s", l->folder, l->name, suffix);
    est_strbuf_printf(&to, "%s/%s%s", l->dir, l->name, suffix);
    status = est_strbuf_status(&from);
    if (status == EST_OK) status = est_strbuf_status(&to);
    if (status == EST_OK && link(est_strbuf_text(&from), est_strbuf_text(&to)) != 0) {
        status = est_fail(errno == ENOENT || errno == ESTALE ? EST_NOT_FOUND : EST_UNIMPLEMENTED, "%s: %s",
                          est_strbuf_text(&from), strerror(errno));
    }
    est_strbuf_clear(&from);
    est_strbuf_clear(&to);
    return status;
}

static est_status link_rest(const linking *l)
{
    DIR           *handle = opendir(l->folder);
    size_t         size   = strlen(l->name);
    struct dirent *entry;
    est_status     status = EST_OK;

    if (handle == NULL) return est_fail(EST_NOT_FOUND, "%s: %s", l->folder, strerror(errno));
    while (status == EST_OK && (entry = readdir(handle)) != NULL) {
        const char *suffix = entry->d_name + size;

        if (strncmp(entry->d_name, l->name, size) != 0) continue;
        if (strncmp(suffix, ".data-", 6) == 0 || strcmp(suffix, ".meta") == 0) status = link_one(l, suffix);
    }
    closedir(handle);
    return status;
}

/* The index of the checkpoint, or of its links. */
static est_status stat_index(const char *folder, const char *name, struct stat *out)
{
    est_strbuf path = { 0 };
    est_status status;

    est_strbuf_printf(&path, "%s/%s.index", folder, name);
    status = est_strbuf_status(&path);
    if (status == EST_OK && stat(est_strbuf_text(&path), out) != 0) {
        status = est_fail(est_status_from_errno(errno), "%s: %s", est_strbuf_text(&path), strerror(errno));
    }
    est_strbuf_clear(&path);
    return status;
}

static est_status link_all(const linking *l)
{
    struct stat linked, now;

    EST_TRY(link_one(l, ".index"));
    EST_TRY(link_rest(l));
    EST_TRY(stat_index(l->dir, l->name, &linked));
    EST_TRY(stat_index(l->folder, l->name, &now));
    if (linked.st_ino == now.st_ino && linked.st_dev == now.st_dev) return EST_OK;
    return est_fail(EST_NOT_FOUND, "%s/%s was saved again while it was being linked", l->folder, l->name);
}

/* As link_all, with `prefix` split into folder and name. */
static est_status link_checkpoint(const char *dir, const char *prefix)
{
    const char *slash  = strrchr(prefix, '/');
    char       *folder = est_strdup(slash != NULL ? prefix : ".");
    est_status  status;

    if (folder == NULL) return est_no_memory();
    if (slash != NULL) folder[slash == prefix ? 1 : slash - prefix] = '\0';
    status = link_all(&(linking){ .folder = folder, .name = slash != NULL ? slash + 1 : prefix, .dir = dir });
    est_free(folder);
    return status;
}

static est_status put_prefix(est_pin *pin, const char *prefix)
{
    const char *slash = strrchr(prefix, '/');
    int         size = snprintf(pin->prefix, sizeof pin->prefix, "%s/%s", pin->dir, slash != NULL ? slash + 1 : prefix);

    if (size < (int)sizeof pin->prefix) return EST_OK;
    return est_fail(EST_UNIMPLEMENTED, "the name of a link would be too long");
}

est_status est_pin_open(est_pin *pin, const char *dir)
{
    *pin = (est_pin){ .dir = est_strdup(dir) };
    if (pin->dir == NULL) return est_no_memory();
    est_pin_drop(pin);
    return EST_OK;
}

est_status est_pin_take(est_pin *pin, const char *prefix)
{
    est_status status = EST_OK;

    est_pin_drop(pin);
    if (pin->dir != NULL) {
        status = put_prefix(pin, prefix);
        if (status == EST_OK && est_dir_create(pin->dir) != EST_OK) status = EST_UNIMPLEMENTED;
        if (status == EST_OK) status = link_checkpoint(pin->dir, prefix);
        if (status != EST_OK) est_pin_drop(pin);
    }
    if (status == EST_UNIMPLEMENTED && !pin->unlinked) {
        est_log_info("Hard links to checkpoints are not possible (%s): checkpoints are read in place and may be "
                     "removed while they are read.",
                     est_error_message());
        pin->unlinked = true;
    }
    if (status != EST_OK && status != EST_UNIMPLEMENTED) return status;
    if (pin->prefix[0] == '\0') EST_TRY(est_checkpoint_put_path(prefix, pin->prefix));
    return est_checkpoint_put_path(prefix, pin->of);
}

const char *est_pin_name(const est_pin *pin, const char *path)
{
    return pin != NULL && pin->of[0] != '\0' && strcmp(path, pin->prefix) == 0 ? pin->of : path;
}

est_status est_pin_blame(const est_pin *pin, est_status status)
{
    est_strbuf  named = { 0 };
    const char *text, *at;
    est_error   error;

    if (status == EST_OK || pin == NULL || pin->of[0] == '\0') return status;
    est_error_take(status, &error);
    for (text = error.message; (at = strstr(text, pin->prefix)) != NULL; text = at + strlen(pin->prefix)) {
        est_strbuf_append_bytes(&named, text, (size_t)(at - text));
        est_strbuf_append(&named, pin->of);
    }
    est_strbuf_append(&named, text);
    if (!named.failed) snprintf(error.message, sizeof error.message, "%s", est_strbuf_text(&named));
    est_strbuf_clear(&named);
    return est_error_raise(&error);
}

void est_pin_drop(est_pin *pin)
{
    est_error error;

    pin->of[0] = pin->prefix[0] = '\0';
    if (pin->dir == NULL) return;
    est_error_take(EST_OK, &error);
    if (est_dir_remove(pin->dir) != EST_OK)
        est_log_warn("cannot remove the links to a checkpoint: %s", est_error_message());
    (void)est_error_raise(&error);
}

void est_pin_close(est_pin *pin)
{
    est_pin_drop(pin);
    est_free(pin->dir);
    *pin = (est_pin){ 0 };
}
