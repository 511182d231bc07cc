/* SPDX-License-Identifier: Apache-2.0
 *
 * Caught signals. The handler stores the number in an atomic that any thread may read, restores the default handlers,
 * and acknowledges the signal on standard error, using only async-signal-safe functions. */
#include "base/signals.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER; /* guards depth, before and kept */
static int              depth;
static struct sigaction before[2];
static int              kept; /* a signal that ended no call: the next one begins with it; 0: none */
static atomic_int       caught;
static atomic_bool      told;
static atomic_int       answers; /* an answer_kind */

typedef enum answer_kind {
    ANSWER_NONE,
    ANSWER_PLAIN,
    ANSWER_OVER_STATUS /* a status line may be on the terminal: first it is erased */
} answer_kind;

#define ERASE_LINE "\r\033[K"

static const int numbers[2] = { SIGINT, SIGTERM };

/* Makes both signals that are not ignored do this. */
static void set_both(void (*handler)(int number), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 2; i++) sigaddset(&action.sa_mask, numbers[i]);
    for (int i = 0; i < 2; i++) {
        if (before[i].sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
    }
}

static void answer(int number)
{
    static const char term[] = "estoc: SIGTERM: stopping in good order; once more to stop at once\n";
    static const char intr[] = "estoc: SIGINT: stopping in good order; once more to stop at once\n";
    int               way    = atomic_load(&answers);
    ssize_t           ignored;

    if (way == ANSWER_NONE) return;
    if (way == ANSWER_OVER_STATUS) ignored = write(STDERR_FILENO, ERASE_LINE, strlen(ERASE_LINE));
    ignored = number == SIGTERM ? write(STDERR_FILENO, term, sizeof term - 1)
                                : write(STDERR_FILENO, intr, sizeof intr - 1);
    (void)ignored;
}

/* The defaults come back, so that a second signal ends the process. */
static void remember(int number)
{
    int error = errno;

    set_both(SIG_DFL, 0);
    atomic_store(&caught, number);
    answer(number);
    errno = error;
}

/* SA_RESTART: a read that waits for input continues; timed waits check est_stop_signal. With a signal pending from the
 * previous call the default handlers stay, so that the second signal ends the process. */
void est_signals_catch(void)
{
    pthread_mutex_lock(&lock);
    if (depth++ == 0) {
        atomic_store(&caught, kept);
        atomic_store(&told, false);
        atomic_store(&answers, !est_log_plain()         ? ANSWER_NONE
                               : est_log_status_shown() ? ANSWER_OVER_STATUS
                                                        : ANSWER_PLAIN);
        for (int i = 0; i < 2; i++) sigaction(numbers[i], NULL, &before[i]);
        if (kept == 0) set_both(remember, SA_RESTART);
        kept = 0;
    }
    pthread_mutex_unlock(&lock);
}

static const char *name(int number)
{
    return number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "";
}

/* Whether the program has its own handler for the signal. */
static bool has_handler(int number)
{
    void (*handler)(int number) = before[number == SIGINT ? 0 : 1].sa_handler;

    return handler != SIG_DFL && handler != SIG_IGN;
}

static void note_told(est_status status)
{
    atomic_store(&told, atomic_load(&caught) != 0 && status == EST_CANCELLED);
}

/* is_call: `status` says whether the signal was told; else the calls before this have done that. */
static void release(bool is_call, est_status status)
{
    int  number = 0;
    bool own    = false;

    pthread_mutex_lock(&lock);
    assert(depth > 0);
    depth--;
    for (int i = 0; i < 2 && depth == 0; i++) sigaction(numbers[i], &before[i], NULL);
    if (is_call) note_told(status);
    if (depth == 0) {
        number = atomic_exchange(&caught, 0); /* after restoring the handlers: a later signal goes to the program */
        if (atomic_load(&told)) number = 0;
        own = number != 0 && has_handler(number);
        if (!own) kept = number;
    }
    pthread_mutex_unlock(&lock);
    if (number != 0 && !own)
        est_log_info("%s came too late to stop this call; the next one will be stopped", name(number));
    if (!own) return;
    if (status != EST_OK) est_log_error("%s: %s", est_status_name(status), est_error_message());
    raise(number);
}

void est_signals_release(est_status status)
{
    release(true, status);
}

void est_signals_release_object(void)
{
    release(false, EST_OK);
}

void est_signals_tell(est_status status)
{
    if (status == EST_CANCELLED) note_told(status);
}

bool est_signals_told(void)
{
    return atomic_load(&told);
}

int est_stop_signal(void)
{
    return atomic_load(&caught);
}

const char *est_stop_signal_name(void)
{
    return name(est_stop_signal());
}

est_status est_signals_check(const char *what)
{
    if (est_stop_signal() == 0) return EST_OK;
    return est_fail(EST_CANCELLED, "%s: the %s was stopped; start it again", est_stop_signal_name(), what);
}

bool est_signals_wait(double secs)
{
    const int64_t slice = EST_NS_PER_SEC / 20;
    int64_t       until = est_now_ns() + est_secs_to_ns(secs);

    while (est_stop_signal() == 0) {
        int64_t left = until - est_now_ns();

        if (left <= 0) return false;
        est_sleep_ns(left < slice ? left : slice);
    }
    return true;
}
