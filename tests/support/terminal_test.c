/* SPDX-License-Identifier: Apache-2.0 */
#include "support/terminal_test.h"

#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/log.h"
#include "support/log_test.h"
#include "support/test.h"

char screen[1 << 16];

void on_terminal(int columns, int (*body)(void))
{
    struct winsize size = { .ws_row = 25, .ws_col = (unsigned short)columns };
    size_t         n    = 0;
    int            terminal, status;
    ssize_t        got;
    pid_t          child = forkpty(&terminal, NULL, NULL, &size);

    assert_true(child >= 0);
    if (child == 0) {
        log_release();
        est_log_set_level(EST_LOG_INFO);
        setenv("TERM", "xterm", 1);
        unsetenv("NO_COLOR");
        _exit(body());
    }
    while ((got = read(terminal, screen + n, sizeof screen - 1 - n)) > 0) n += (size_t)got;
    screen[n] = '\0';
    close(terminal);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0) fail_msg("%d: %s", WEXITSTATUS(status), screen);
}

bool screen_has(const char *text)
{
    return strstr(screen, text) != NULL;
}

void expect_on_screen(const char *text)
{
    if (!screen_has(text)) fail_msg("'%s' is not in '%s'", text, screen);
}
