/* Words to a service manager: they arrive as one datagram at either kind of address, and without
 * one nothing happens. */
#include "tests/unit/vl_test.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/server/notify.h"

static int listen_at(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    memcpy(at.sun_path, name, n);
    if (name[0] == '@')
        at.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
        0);
    return fd;
}

static void test_words_arrive_at_path_and_abstract_name(void **state)
{
    (void)state;
    char names[2][64], got[64];
    snprintf(names[0], sizeof names[0], "/tmp/vallmo-notify-%d", (int)getpid());
    snprintf(names[1], sizeof names[1], "@vallmo-notify-%d", (int)getpid());
    for (int i = 0; i < 2; i++) {
        int fd = listen_at(names[i]);
        setenv("NOTIFY_SOCKET", names[i], 1);
        assert_true(notify_send("READY=1\nSTATUS=x"));
        ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);
        assert_int_equal(n, 16);
        assert_memory_equal(got, "READY=1\nSTATUS=x", 16);
        notify_printf("STATUS=%d %%", 7);
        assert_int_equal(recv(fd, got, sizeof got, MSG_DONTWAIT), 10);
        assert_memory_equal(got, "STATUS=7 %", 10);
        close(fd);
    }
    unlink(names[0]);
}

static void test_no_or_bad_address_sends_nothing(void **state)
{
    (void)state;
    char longer[300];
    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = 0;
    unsetenv("NOTIFY_SOCKET");
    assert_false(notify_send("READY=1"));
    const char *const bad[] = {"", "/", "relative", longer, "/nowhere/at/all"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("NOTIFY_SOCKET", bad[i], 1);
        assert_false(notify_send("READY=1"));
    }
    unsetenv("NOTIFY_SOCKET");
}

static void test_watchdog_is_for_this_process_only(void **state)
{
    (void)state;
    char pid[32];
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
    assert_int_equal(notify_watchdog_us(), 0);
    setenv("WATCHDOG_USEC", "3000000", 1);
    assert_int_equal(notify_watchdog_us(), 3000000);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(notify_watchdog_us(), 0);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(notify_watchdog_us(), 3000000);
    setenv("WATCHDOG_USEC", "3x", 1);
    assert_int_equal(notify_watchdog_us(), 0);
    unsetenv("WATCHDOG_PID");
    unsetenv("WATCHDOG_USEC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_arrive_at_path_and_abstract_name),
        cmocka_unit_test(test_no_or_bad_address_sends_nothing),
        cmocka_unit_test(test_watchdog_is_for_this_process_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
