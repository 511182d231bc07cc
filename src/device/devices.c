/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of this process, and the plug-in with the GPUs: opened at run time, so that the library needs nothing of
 * CUDA, starts as fast as without, and says in one line what is missing. */
#include "device/devices.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device/plugin.h"

#define LIBRARY "libestoc_cuda.so"

static const est_device *all[EST_DEVICES_MAX];
static int               n_all;
static char              missing[512]; /* "": there is a GPU */
static pthread_once_t    once = PTHREAD_ONCE_INIT;

static void add(const est_device *const *devices, int n)
{
    all[0] = &est_device_cpu;
    n_all  = 1;
    for (int i = 0; i < n && n_all < EST_DEVICES_MAX; i++) all[n_all++] = devices[i];
}

/* ESTOC_CUDA_PLUGIN, or beside the library or program that this is part of, or where the loader looks. */
static void *open_library(void)
{
    const char *given = getenv("ESTOC_CUDA_PLUGIN");
    char        path[4096];
    Dl_info     self;
    void       *handle = NULL;

    if (given != NULL && given[0] != '\0') return dlopen(given, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (dladdr(&once, &self) != 0 && self.dli_fname != NULL) {
        const char *end    = strrchr(self.dli_fname, '/');
        int         folder = end != NULL ? (int)(end - self.dli_fname) + 1 : 0;

        if (folder > 0 && snprintf(path, sizeof path, "%.*s" LIBRARY, folder, self.dli_fname) < (int)sizeof path) {
            handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        }
    }
    return handle != NULL ? handle : dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void load(void)
{
    static const est_plugin_host host = { est_fail_at };

    void             *handle, *found;
    est_plugin_fn    *function;
    const est_plugin *plugin;

    if (n_all > 0) return; /* est_devices_use */
    add(NULL, 0);
    handle = open_library();
    if (handle == NULL) {
        snprintf(missing, sizeof missing, "no GPU: %s", dlerror());
        return;
    }
    found = dlsym(handle, EST_PLUGIN_SYMBOL);
    if (found == NULL) {
        snprintf(missing, sizeof missing, "no GPU: " LIBRARY " has no " EST_PLUGIN_SYMBOL ": it is not Estoc's");
        return;
    }
    memcpy(&function, &found, sizeof found);
    plugin = function(&host);
    if (strcmp(plugin->build, EST_PLUGIN_BUILD) != 0) {
        snprintf(missing, sizeof missing,
                 "no GPU: " LIBRARY " is of the build %s, this library of %s: install both from one build",
                 plugin->build, EST_PLUGIN_BUILD);
    } else if (plugin->n_devices == 0) {
        snprintf(missing, sizeof missing, "no GPU: %s", plugin->missing);
    } else {
        add(plugin->devices, plugin->n_devices);
    }
}

void est_devices_use(const est_device *const *devices, int n)
{
    add(devices, n);
}

int est_devices(const est_device *const **out)
{
    pthread_once(&once, load);
    *out = all;
    return n_all;
}

const est_device *est_device_find(const char *kind, int number)
{
    const est_device *const *devices;
    int                      n = est_devices(&devices);

    for (int i = 0; i < n; i++) {
        if (strcasecmp(devices[i]->kind, kind) == 0 && devices[i]->number == number) return devices[i];
    }
    return NULL;
}

const char *est_device_name(const est_device *device, char *out, size_t size)
{
    snprintf(out, size, "/device:%s:%d", device->kind, device->number);
    return out;
}

int est_device_list(est_device_info *out, int max)
{
    const est_device *const *devices;
    int                      n = est_devices(&devices);

    for (int i = 0; i < n && i < max && out != NULL; i++) {
        size_t available, total;

        devices[i]->memory(devices[i], &available, &total);
        out[i] = (est_device_info){ .memory_bytes = total, .free_bytes = available };
        (void)est_device_name(devices[i], out[i].name, sizeof out[i].name);
        snprintf(out[i].description, sizeof out[i].description, "%s", devices[i]->description);
    }
    return n;
}

const char *est_device_missing(void)
{
    const est_device *const *devices;

    (void)est_devices(&devices);
    return missing;
}
