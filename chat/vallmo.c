/* chat/vallmo.c: the front: `vallmo serve ...` is vallmo-host, `vallmo chat ...` is poppy with the
 * Vallmo persona. Finds them beside itself, else on PATH. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] = "usage: vallmo serve [options of vallmo-host]\n"
                            "       vallmo chat [options of poppy] [question ...]\n"
                            "       vallmo --version\n"
                            "\n"
                            "  vallmo serve --model models/poppyseed --port 8080\n"
                            "  vallmo chat --url http://127.0.0.1:8080\n";

static int run(const char *name, char **args)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *slash;

    if (n > 0) {
        path[n] = 0;
        slash = strrchr(path, '/');
        if (slash && (size_t)(slash + 1 - path) + strlen(name) < sizeof(path)) {
            memcpy(slash + 1, name, strlen(name) + 1);
            execv(path, args);
        }
    }
    execvp(name, args);
    fprintf(stderr, "vallmo: %s can't be run: %s\n", name, strerror(errno));
    return 127;
}

int main(int argc, char **argv)
{
    char **args = calloc((size_t)argc + 3, sizeof(*args));
    const char *what = argc > 1 ? argv[1] : "";
    char serve[] = "vallmo-host", chat[] = "poppy", flag[] = "--persona", persona[] = "vallmo";
    int n = 0, rc = 2;

    if (!args) {
        fputs("vallmo: out of memory\n", stderr);
        return 1;
    }
    if (strcmp(what, "serve") == 0 || strcmp(what, "chat") == 0) {
        bool is_chat = *what == 'c';

        args[n++] = is_chat ? chat : serve;
        if (is_chat) { /* before the user's own flags, so that theirs win */
            args[n++] = flag;
            args[n++] = persona;
        }
        for (int i = 2; i < argc; i++)
            args[n++] = argv[i];
        rc = run(args[0], args);
    } else if (strcmp(what, "--version") == 0 || strcmp(what, "-V") == 0) {
        puts("vallmo " VALLMO_VERSION);
        rc = 0;
    } else if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0) {
        fputs(usage, stdout);
        rc = 0;
    } else {
        fputs(usage, stderr);
    }
    free(args);
    return rc;
}
