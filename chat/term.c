/* chat/term.c: raw mode and private modes of the one terminal that a process has. The state is
 * global because a signal handler must find it. Knows no view. */
#include "chat/term.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t raw;
static unsigned modes_on;

static const struct {
    unsigned mode;
    const char *on, *off;
} sequences[] = {
    /* Left in this order, entered in the other one. The keyboard's level belongs to the screen that
     * it was set on. */
    {VL_TERM_KITTY, "\x1b[>1u", "\x1b[<u"},
    {VL_TERM_MOUSE, "\x1b[?1000h\x1b[?1006h", "\x1b[?1006l\x1b[?1000l"},
    {VL_TERM_PASTE, "\x1b[?2004h", "\x1b[?2004l"},
    {VL_TERM_CLUSTER, "\x1b[?2027h", "\x1b[?2027l"},
    {VL_TERM_ALT, "\x1b[?1049h", "\x1b[?1049l"},
};
enum { N_SEQUENCES = sizeof(sequences) / sizeof(sequences[0]) };

/* Kept ready for the handler of a crash, which may not build it. An update that was begun is ended,
 * the cursor shows, colours are off. */
static char restore[160];
static volatile size_t restore_len;

static void plan_restore(void)
{
    char text[sizeof(restore)];
    size_t n = 0;
    static const char head[] = "\x1b[?2026l\x1b[0m\x1b[?25h";

    memcpy(text, head, sizeof(head) - 1);
    n = sizeof(head) - 1;
    for (int i = 0; i < N_SEQUENCES; i++)
        if (modes_on & sequences[i].mode) {
            size_t len = strlen(sequences[i].off);

            memcpy(text + n, sequences[i].off, len);
            n += len;
        }
    restore_len = 0;
    memcpy(restore, text, n);
    restore_len = n;
}

static void on_crash(int sig)
{
    if (raw) {
        ssize_t n = write(STDOUT_FILENO, restore, restore_len);

        (void)n;
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        raw = 0;
    }
    signal(sig, SIG_DFL); /* and it dies of it */
    raise(sig);
}

static void catch_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGQUIT};
    static char stack[16384];
    stack_t alt = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction sa;

    sigaltstack(&alt, NULL);
    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = on_crash;
    sa.sa_flags = SA_ONSTACK | SA_RESETHAND | SA_NODEFER;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &sa, NULL);
}

bool vl_term_write(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};

            poll(&p, 1, 1000);
            continue;
        }
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

bool vl_term_ready(void)
{
    struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLOUT);
}

void vl_term_mode(unsigned modes, bool on)
{
    for (int k = 0; k < N_SEQUENCES; k++) {
        int i = on ? N_SEQUENCES - 1 - k : k;
        unsigned m = sequences[i].mode;

        if (!(modes & m) || !!(modes_on & m) == on)
            continue;
        if (on) { /* planned first: a signal in between leaves a mode that is not on, not one that
                     is */
            modes_on |= m;
            plan_restore();
        }
        vl_term_write(on ? sequences[i].on : sequences[i].off,
                      strlen(on ? sequences[i].on : sequences[i].off));
        modes_on = on ? modes_on | m : modes_on & ~m;
        plan_restore();
    }
}

unsigned vl_term_modes(void)
{
    return modes_on;
}

bool vl_term_enter(unsigned modes)
{
    static bool once;
    struct termios t;

    if (raw)
        return true;
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    if (!once) {
        once = true;
        catch_crashes();
        atexit(vl_term_leave);
    }
    t = before;
    t.c_iflag &= ~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
    t.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    t.c_cc[VMIN] = 1;
    t.c_cc[VTIME] = 0;
    plan_restore();
    raw = 1;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &t) != 0) {
        raw = 0;
        return false;
    }
    vl_term_mode(modes, true);
    return true;
}

void vl_term_leave(void)
{
    if (!raw)
        return;
    vl_term_write(restore, restore_len);
    modes_on = 0;
    plan_restore();
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    raw = 0;
}

void vl_term_size(int *cols, int *rows)
{
    struct winsize w;

    *cols = 80;
    *rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0) {
        *cols = w.ws_col;
        *rows = w.ws_row;
    }
}
