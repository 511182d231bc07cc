/* SPDX-License-Identifier: Apache-2.0
 *
 * Caught signals. The handler only stores the number, in an atomic that any thread may read. */
#include "base/signals.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/log.h"

static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER; /* guards depth and before */
static int              depth;
static struct sigaction before[2];
static atomic_int       caught;
static atomic_bool      told;

static const int numbers[2] = { SIGINT, SIGTERM };

/* SA_RESETHAND has put the default back, so that a second signal ends the process. SA_RESTART: a read that waits for input
 * goes on; what waits for time looks at est_stop_signal. */
static void remember(int number)
{
    atomic_store(&caught, number);
}

void est_signals_catch(void)
{
    struct sigaction action = { .sa_handler = remember, .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };

    pthread_mutex_lock(&lock);
    if (depth++ == 0) {
        atomic_store(&caught, 0);
        atomic_store(&told, false);
        sigemptyset(&action.sa_mask);
        for (int i = 0; i < 2; i++) {
            sigaction(numbers[i], NULL, &before[i]);
            if (before[i].sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
        }
    }
    pthread_mutex_unlock(&lock);
}

void est_signals_release(est_status status)
{
    int number = 0;

    pthread_mutex_lock(&lock);
    assert(depth > 0);
    if (--depth == 0) {
        for (int i = 0; i < 2; i++) sigaction(numbers[i], &before[i], NULL);
        number = atomic_exchange(&caught, 0); /* after that: a signal that comes now is no longer ours */
        atomic_store(&told, number != 0 && status == EST_CANCELLED);
    }
    pthread_mutex_unlock(&lock);
    if (number == 0 || status == EST_CANCELLED) return;
    if (status != EST_OK) est_log_error("%s: %s", est_status_name(status), est_error_message());
    raise(number);
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
    int number = est_stop_signal();

    return number == SIGINT ? "SIGINT" : number == SIGTERM ? "SIGTERM" : "";
}

est_status est_signals_check(const char *what)
{
    if (est_stop_signal() == 0) return EST_OK;
    return est_fail(EST_CANCELLED, "%s: the %s was stopped; start it again", est_stop_signal_name(), what);
}

bool est_signals_wait(double secs)
{
    const int64_t slice = EST_NS_PER_SEC / 20;
    int64_t       until = est_now_ns() + (int64_t)(secs * (double)EST_NS_PER_SEC);

    while (est_stop_signal() == 0) {
        int64_t left = until - est_now_ns();

        if (left <= 0) return false;
        est_sleep_ns(left < slice ? left : slice);
    }
    return true;
}
