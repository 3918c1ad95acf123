/* chat/main.c: the program poppy: reads flags and settings, then either one answer or a chat. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chat/chat.h"
#include "chat/oneshot.h"
#include "chat/options.h"
#include "chat/settings.h"

static const char default_url[] = "http://127.0.0.1:8080";

static int run(struct vl_options *o, struct vl_settings *s)
{
    bool in = isatty(STDIN_FILENO), out = isatty(STDOUT_FILENO);
    bool own_url = !o->url && s->url.len;
    const char *url = o->url ? o->url : own_url ? s->url.ptr : default_url;
    /* A model that was chosen for one server says nothing about another one. */
    const char *model = o->model ? o->model : own_url && s->model.len ? s->model.ptr : NULL;

    if (o->bloom) {
        if (!out) {
            fputs("poppy: --bloom needs a terminal\n", stderr);
            return 2;
        }
        return vl_chat_bloom(o, s);
    }
    if (o->words.len || !in)
        return vl_oneshot_run(o, s, url, model);
    if (!out) {
        fputs("poppy: nothing to ask: give a question, or text on standard input\n", stderr);
        return 2;
    }
    return vl_chat_run(o, s, url, model);
}

int main(int argc, char **argv)
{
    struct vl_options options;
    struct vl_settings settings;
    vl_error err = {0};
    int rc = vl_options_parse(&options, argc, argv);

    if (rc) {
        vl_options_fini(&options);
        return rc - 1;
    }
    vl_settings_init(&settings);
    if (vl_settings_load(&settings, &err) != VL_OK && err.status != VL_E_NOT_FOUND)
        fprintf(stderr, "poppy: settings are not used: %s\n", err.text);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    rc = run(&options, &settings);
    curl_global_cleanup();
    vl_settings_fini(&settings);
    vl_options_fini(&options);
    return rc;
}
