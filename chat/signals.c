/* chat/signals.c: handlers that only write a byte; everything else happens in the loop. */
#include "chat/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int pipe_fd[2] = {-1, -1};

static void on_signal(int sig)
{
    int saved = errno;
    unsigned char b = (unsigned char)sig;
    ssize_t n = write(pipe_fd[1], &b, 1); /* a full pipe already wakes the loop */

    (void)n;
    errno = saved;
}

static void catch_signal(int sig)
{
    struct sigaction sa, old;

    /* What the caller has set to be ignored (nohup) stays so. */
    if (sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
        return;
    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = on_signal;
    sa.sa_flags = SA_RESTART;
    sigaction(sig, &sa, NULL);
}

bool vl_signals_init(bool chat)
{
    if (pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    signal(SIGPIPE, SIG_IGN);
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    catch_signal(SIGHUP);
    if (chat) {
        catch_signal(SIGWINCH);
        catch_signal(SIGCONT);
        catch_signal(SIGTSTP);
    }
    return true;
}

int vl_signals_fd(void)
{
    return pipe_fd[0];
}

int vl_signals_take(void)
{
    unsigned char b;

    return read(pipe_fd[0], &b, 1) == 1 ? b : 0;
}
