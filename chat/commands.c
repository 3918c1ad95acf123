/* chat/commands.c: the words behind a slash: one table, one function each. Knows the chat's state;
 * draws nothing. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chat/chat_state.h"
#include "chat/copy.h"
#include "chat/term.h"

struct command {
    const char *name, *args, *help;
    bool any_time; /* also while an answer runs */
    bool (*run)(struct vl_chat *c, const char *arg);
};

/* A whole number within bounds; the rest of the text must be blank. */
static bool number(const char *s, long long min, long long max, long long *out)
{
    char *end;

    errno = 0;
    *out = strtoll(s, &end, 10);
    while (*end == ' ')
        end++;
    return errno == 0 && end != s && !*end && *out >= min && *out <= max;
}

static bool cmd_clear(struct vl_chat *c, const char *arg)
{
    vl_buf system = c->session.system;

    (void)arg;
    memset(&c->session.system, 0, sizeof(c->session.system));
    vl_session_fini(&c->session);
    c->session.system = system;
    c->fresh = true;
    c->face.scroll = 0;
    vl_chat_hint(c, "a new chat");
    return true;
}

static bool cmd_url(struct vl_chat *c, const char *arg)
{
    vl_error err = {0};

    if (!*arg) {
        vl_chat_note(c, VL_ITEM_NOTE, "server: %s", c->turn.base.ptr);
        return true;
    }
    if (vl_turn_server(&c->turn, arg, &err) != VL_OK) {
        vl_chat_hint(c, "%s", err.text);
        return false;
    }
    vl_buf_clear(&c->settings->url);
    vl_buf_puts(&c->settings->url, arg);
    vl_buf_clear(&c->settings->model);
    vl_chat_save_settings(c);
    vl_chat_note(c, VL_ITEM_NOTE, "server: %s", c->turn.base.ptr);
    vl_turn_look(&c->turn);
    return true;
}

static bool cmd_model(struct vl_chat *c, const char *arg)
{
    if (!*arg) {
        if (c->turn.n_models && c->kind != VL_VIEW_PLAIN) {
            vl_chat_choose_model(c);
        } else {
            vl_chat_note(c, VL_ITEM_NOTE, "model: %s",
                         c->turn.model.len ? c->turn.model.ptr : "none yet");
            for (size_t i = 0; i < c->turn.n_models; i++)
                vl_chat_note(c, VL_ITEM_NOTE, "/model %s", c->turn.models[i]);
        }
        return true;
    }
    vl_buf_clear(&c->turn.model);
    vl_buf_puts(&c->turn.model, arg);
    /* Kept only where it belongs: with the server of the settings file. */
    if (c->settings->url.len) {
        vl_buf_clear(&c->settings->model);
        vl_buf_puts(&c->settings->model, arg);
        vl_chat_save_settings(c);
    }
    vl_chat_hint(c, "model: %s", arg);
    return true;
}

static bool cmd_system(struct vl_chat *c, const char *arg)
{
    if (!*arg) {
        vl_chat_note(c, VL_ITEM_NOTE, "system text: %s",
                     c->session.system.len ? c->session.system.ptr : "none");
        return true;
    }
    vl_buf_clear(&c->session.system);
    if (strcmp(arg, "-") != 0)
        vl_buf_puts(&c->session.system, arg);
    vl_chat_hint(c, c->session.system.len ? "the system text is set" : "no system text");
    return true;
}

static bool cmd_set(struct vl_chat *c, const char *arg)
{
    size_t n = strcspn(arg, " =");
    char name[64];
    vl_error err = {0};
    vl_buf list = VL_BUF_INIT;

    if (!*arg) {
        for (size_t i = 0; i < c->settings->n_params; i++)
            vl_buf_printf(&list, "%s%s %s", i ? ", " : "", c->settings->params[i].name,
                          c->settings->params[i].value.ptr);
        vl_chat_note(c, VL_ITEM_NOTE, "set: %s", list.len ? list.ptr : "nothing");
        vl_buf_fini(&list);
        return true;
    }
    if (n >= sizeof(name)) {
        vl_chat_hint(c, "no parameter of that name");
        return false;
    }
    memcpy(name, arg, n);
    name[n] = 0;
    arg += n + strspn(arg + n, " =");
    if (vl_settings_param(c->settings, name, arg, &err) != VL_OK) {
        vl_buf_puts(&list, err.text);
        if (err.status == VL_E_NOT_FOUND)
            vl_buf_puts(&list, "; there are");
        for (size_t i = 0; err.status == VL_E_NOT_FOUND && vl_param_names[i]; i++)
            vl_buf_printf(&list, " %s", vl_param_names[i]);
        vl_chat_hint(c, "%s", list.ptr);
        vl_buf_fini(&list);
        return false;
    }
    vl_chat_save_settings(c);
    vl_chat_hint(c, *arg ? "%s is %s" : "%s is the server's own again", name, arg);
    return true;
}

static bool cmd_maxtokens(struct vl_chat *c, const char *arg)
{
    long long n;

    if (!*arg) {
        vl_chat_note(c, VL_ITEM_NOTE, "max tokens: %lld%s", (long long)c->settings->max_tokens,
                     c->settings->max_tokens ? "" : " (the server's own limit)");
        return true;
    }
    if (!number(arg, 0, 100000000, &n)) {
        vl_chat_hint(c, "/maxtokens %s: want a whole number; 0 takes the limit away", arg);
        return false;
    }
    c->settings->max_tokens = n;
    vl_chat_save_settings(c);
    vl_chat_hint(c, n ? "answers of at most %lld tokens" : "no limit of our own", n);
    return true;
}

static bool cmd_fade(struct vl_chat *c, const char *arg)
{
    long long n;

    if (!*arg) {
        vl_chat_note(c, VL_ITEM_NOTE, "fade: %d", c->settings->fade);
        return true;
    }
    if (!number(arg, 0, 100, &n)) {
        vl_chat_hint(c, "/fade %s: want 0 (no flower) to 100", arg);
        return false;
    }
    c->settings->fade = (int)n;
    vl_chat_save_settings(c);
    return true;
}

static bool cmd_theme(struct vl_chat *c, const char *arg)
{
    if (!*arg) {
        vl_menu_clear(&c->menu);
        vl_buf_puts(&c->menu.title, "Which theme? Up, Down, Enter; Esc leaves");
        for (size_t i = 0; i < vl_n_themes; i++) {
            vl_buf line = VL_BUF_INIT;

            vl_buf_printf(&line, "%-10s  %s", vl_themes[i].name, vl_themes[i].about);
            if (!line.failed)
                vl_menu_add(&c->menu, line.ptr);
            if (&vl_themes[i] == c->face.theme)
                c->menu.selected = i;
            vl_buf_fini(&line);
        }
        c->choice = VL_CHOICE_THEME;
        return true;
    }
    if (!vl_theme_find(arg)) {
        vl_chat_hint(c, "no theme %s; /theme lists them", arg);
        return false;
    }
    vl_buf_clear(&c->settings->theme);
    vl_buf_puts(&c->settings->theme, arg);
    vl_chat_save_settings(c);
    return true;
}

static bool cmd_thinking(struct vl_chat *c, const char *arg)
{
    struct vl_settings *s = c->settings;

    if (strcmp(arg, "show") == 0 || strcmp(arg, "hide") == 0)
        s->show_thinking = *arg == 's';
    else if (strcmp(arg, "on") == 0 || strcmp(arg, "off") == 0)
        s->thinking = arg[1] == 'n';
    else if (strcmp(arg, "auto") == 0)
        s->thinking = -1;
    else if (*arg) {
        vl_chat_hint(c, "/thinking %s: want show, hide, on, off or auto", arg);
        return false;
    }
    vl_chat_save_settings(c);
    vl_chat_hint(c, "thinking: %s, %s",
                 s->thinking < 0 ? "as the model has it"
                 : s->thinking   ? "on"
                                 : "off",
                 s->show_thinking ? "shown" : "folded");
    return true;
}

static bool cmd_copy(struct vl_chat *c, const char *arg)
{
    const struct vl_item *a = vl_session_last_answer(&c->session);
    vl_buf text = VL_BUF_INIT, out = VL_BUF_INIT;
    long long n = 0;
    size_t have;

    if (!a) {
        vl_chat_hint(c, "there is no answer to copy");
        return false;
    }
    if (*arg && !number(arg, 1, 100000, &n)) {
        vl_chat_hint(c, "/copy %s: want the number of a code block", arg);
        return false;
    }
    if (n == 0) {
        vl_buf_append(&text, a->text.ptr, a->text.len);
    } else if ((have = vl_copy_code(a->text.ptr, a->text.len, (size_t)n, &text)) < (size_t)n) {
        vl_chat_hint(c, "/copy %lld: the answer has %zu code block%s", n, have,
                     have == 1 ? "" : "s");
        return false;
    }
    if (c->kind == VL_VIEW_PLAIN) {
        vl_chat_hint(c, "this terminal has no clipboard");
        vl_buf_fini(&text);
        return false;
    }
    vl_copy_sequence(&out, text.len ? text.ptr : "", text.len);
    if (!out.failed)
        vl_term_write(out.ptr, out.len);
    vl_chat_hint(c, "copied %zu bytes", text.len);
    vl_buf_fini(&text);
    vl_buf_fini(&out);
    return true;
}

static bool cmd_save(struct vl_chat *c, const char *arg)
{
    vl_error err = {0};
    vl_status rc =
        *arg ? vl_session_rename(&c->session, arg, &err) : vl_session_save(&c->session, &err);

    if (rc != VL_OK) {
        vl_chat_hint(c, "%s", err.text);
        return false;
    }
    vl_chat_hint(c, "saved as %s", c->session.name.len ? c->session.name.ptr : "nothing yet");
    return true;
}

static bool cmd_load(struct vl_chat *c, const char *arg)
{
    vl_error err = {0};
    char **names;
    size_t n;

    if (*arg) {
        if (vl_session_load(&c->session, arg, &err) != VL_OK) {
            vl_chat_hint(c, "%s", err.text);
            return false;
        }
        c->face.scroll = 0;
        c->fresh = false;
        vl_chat_hint(c, "loaded %s", arg);
        return true;
    }
    if (vl_session_names(&names, &n, &err) != VL_OK || n == 0) {
        vl_chat_hint(c, "%s", err.text[0] ? err.text : "no chat is saved");
        vl_names_free(names, n);
        return false;
    }
    vl_menu_clear(&c->menu);
    vl_buf_puts(&c->menu.title, "Which chat? Up, Down, Enter; Esc leaves");
    for (size_t i = 0; i < n; i++)
        vl_menu_add(&c->menu, names[i]);
    c->choice = VL_CHOICE_CHAT;
    vl_names_free(names, n);
    return true;
}

static bool cmd_list(struct vl_chat *c, const char *arg)
{
    vl_buf text = VL_BUF_INIT;
    vl_error err = {0};
    char **names;
    size_t n;

    (void)arg;
    if (vl_session_names(&names, &n, &err) != VL_OK) {
        vl_chat_hint(c, "%s", err.text);
        return false;
    }
    vl_buf_puts(&text, n ? "saved chats, the newest first:" : "no chat is saved");
    for (size_t i = 0; i < n; i++)
        vl_buf_printf(&text, "\n%s", names[i]);
    vl_chat_note(c, VL_ITEM_NOTE, "%s", text.ptr);
    vl_buf_fini(&text);
    vl_names_free(names, n);
    return true;
}

static bool cmd_undo(struct vl_chat *c, const char *arg)
{
    (void)arg;
    vl_input_clear(&c->input);
    vl_chat_undo(c);
    return true;
}

static bool cmd_retry(struct vl_chat *c, const char *arg)
{
    (void)arg;
    vl_chat_retry(c);
    return true;
}

static bool cmd_tokens(struct vl_chat *c, const char *arg)
{
    const struct vl_turn_stats *s = &c->turn.stats;

    (void)arg;
    if (s->prompt_tokens < 0 && s->answer_tokens < 0) {
        vl_chat_note(c, VL_ITEM_NOTE, "the server has told no numbers of tokens");
        return true;
    }
    vl_chat_note(
        c, VL_ITEM_NOTE, "prompt %lld (cached %lld), answer %lld, together %lld%s",
        (long long)s->prompt_tokens, (long long)(s->cached_tokens > 0 ? s->cached_tokens : 0),
        (long long)s->answer_tokens, (long long)(s->prompt_tokens + s->answer_tokens), " tokens");
    return true;
}

static bool cmd_edit(struct vl_chat *c, const char *arg)
{
    vl_input_set(&c->input, arg, strlen(arg));
    vl_chat_edit(c);
    return true;
}

static bool cmd_mouse(struct vl_chat *c, const char *arg)
{
    bool on = strcmp(arg, "on") == 0;

    if (!on && strcmp(arg, "off") != 0) {
        vl_chat_hint(c, "/mouse %s: want on (the wheel scrolls) or off (the terminal selects)",
                     arg);
        return false;
    }
    c->settings->mouse = on;
    if (c->kind != VL_VIEW_PLAIN)
        vl_term_mode(VL_TERM_MOUSE, on);
    vl_chat_save_settings(c);
    return true;
}

static bool cmd_quit(struct vl_chat *c, const char *arg)
{
    (void)arg;
    if (vl_turn_busy(&c->turn))
        vl_chat_stop(c);
    vl_chat_leave(c, 0);
    return true;
}

static bool cmd_help(struct vl_chat *c, const char *arg);

static const struct command commands[] = {
    {"/help", "", "this list", true, cmd_help},
    {"/clear", "", "forget the dialogue, keep the system text", false, cmd_clear},
    {"/url", "URL", "another server, the dialogue comes along", false, cmd_url},
    {"/model", "NAME", "another model; without a name, choose", false, cmd_model},
    {"/system", "TEXT", "the system text; - for none", false, cmd_system},
    {"/set", "NAME VALUE", "a parameter of all requests (temperature, top_p ...)", false, cmd_set},
    {"/maxtokens", "N", "the longest answer; 0 for no limit", false, cmd_maxtokens},
    {"/thinking", "show|hide|on|off|auto", "thoughts on the screen; the model's thinking", false,
     cmd_thinking},
    {"/fade", "0-100", "strength of the flower; 0 hides it", true, cmd_fade},
    {"/theme", "NAME", "colours", true, cmd_theme},
    {"/copy", "[N]", "the last answer, or its Nth code block, to the clipboard", true, cmd_copy},
    {"/save", "[NAME]", "give the chat a name (it is saved after each turn)", false, cmd_save},
    {"/load", "NAME", "go on with a saved chat", false, cmd_load},
    {"/list", "", "the saved chats", true, cmd_list},
    {"/undo", "", "take the last question back into the box", false, cmd_undo},
    {"/retry", "", "ask the last question again", false, cmd_retry},
    {"/tokens", "", "numbers of the last answer", true, cmd_tokens},
    {"/edit", "", "write in $EDITOR (Ctrl-O)", false, cmd_edit},
    {"/mouse", "on|off", "the wheel scrolls, or the terminal selects", true, cmd_mouse},
    {"/quit", "", "leave (Ctrl-D)", true, cmd_quit},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static bool cmd_help(struct vl_chat *c, const char *arg)
{
    vl_buf text = VL_BUF_INIT;

    (void)arg;
    for (int i = 0; i < N_COMMANDS; i++) {
        vl_buf name = VL_BUF_INIT;

        vl_buf_printf(&name, "%s %s", commands[i].name, commands[i].args);
        vl_buf_printf(&text, "%-33s %s\n", name.len ? name.ptr : "", commands[i].help);
        vl_buf_fini(&name);
    }
    vl_buf_puts(
        &text,
        "Enter sends. Ctrl-J, Alt-Enter or a backslash at the end: a new line. Esc or Ctrl-C stops "
        "an answer. Up, Down, Ctrl-R: what was sent before. PgUp, PgDn scroll. Tab completes. "
        "Ctrl-Z suspends, Ctrl-L redraws. A blank before a slash sends it as text.");
    vl_chat_note(c, VL_ITEM_NOTE, "%s", text.ptr);
    vl_buf_fini(&text);
    return true;
}

/* ---- finding and completing ---- */

/* Letters to change, add or take away; none for a beginning of the other. */
static size_t distance(const char *a, size_t n, const char *b)
{
    size_t row[64], m = strlen(b);

    if (m >= 64 || n >= 64)
        return 64;
    if (n > 1 && strncmp(a, b, n) == 0)
        return 0;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t cost = diagonal + (a[i - 1] != b[j - 1]), best = row[j] + 1;

            diagonal = row[j];
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = cost < best ? cost : best;
        }
    }
    return row[m];
}

static const struct command *find(const char *word, size_t n)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, word, n) == 0)
            return &commands[i];
    return NULL;
}

bool vl_command_run(struct vl_chat *c, const char *line)
{
    size_t n = strcspn(line, " \t\n"), best = 0;
    const struct command *cmd = find(line, n);
    vl_buf arg = VL_BUF_INIT;
    bool done;

    if (!cmd) {
        for (size_t i = 1; i < N_COMMANDS; i++)
            if (distance(line, n, commands[i].name) < distance(line, n, commands[best].name))
                best = i;
        vl_chat_hint(c, "no command %.*s; the nearest is %s. A blank in front sends it as text",
                     (int)(n < 40 ? n : 40), line, commands[best].name);
        return false;
    }
    if (!cmd->any_time && vl_turn_busy(&c->turn)) {
        vl_chat_hint(c, "%s waits for the end of the answer; Esc stops it", cmd->name);
        return false;
    }
    line += n;
    line += strspn(line, " \t\n");
    vl_buf_puts(&arg, line);
    while (arg.len && isspace((unsigned char)arg.ptr[arg.len - 1]))
        arg.ptr[--arg.len] = 0;
    done = cmd->run(c, arg.len ? arg.ptr : "");
    vl_buf_fini(&arg);
    return done;
}

static void offer(struct vl_chat *c, const char *word, const char *typed, const char *about)
{
    vl_buf line = VL_BUF_INIT;

    if (strncmp(word, typed, strlen(typed)) != 0)
        return;
    if (*about)
        vl_buf_printf(&line, "%-12s  %s", word, about);
    else
        vl_buf_puts(&line, word);
    if (!line.failed)
        vl_menu_add(&c->menu, line.ptr);
    vl_buf_fini(&line);
}

static void complete_argument(struct vl_chat *c, const struct command *cmd, const char *typed)
{
    static const char *const on_off[] = {"on", "off", NULL};
    static const char *const thinking[] = {"show", "hide", "on", "off", "auto", NULL};
    static const char *const fades[] = {"0", "30", "60", "100", NULL};
    const char *const *words = NULL;

    if (cmd->run == cmd_theme) {
        for (size_t i = 0; i < vl_n_themes; i++)
            offer(c, vl_themes[i].name, typed, vl_themes[i].about);
    } else if (cmd->run == cmd_model) {
        for (size_t i = 0; i < c->turn.n_models; i++)
            offer(c, c->turn.models[i], typed, "");
    } else if (cmd->run == cmd_load) {
        char **names;
        size_t n;

        vl_session_names(&names, &n, NULL);
        for (size_t i = 0; i < n; i++)
            offer(c, names[i], typed, "");
        vl_names_free(names, n);
    } else {
        words = cmd->run == cmd_mouse      ? on_off
                : cmd->run == cmd_thinking ? thinking
                : cmd->run == cmd_fade     ? fades
                : cmd->run == cmd_set      ? vl_param_names
                                           : NULL;
    }
    for (size_t i = 0; words && words[i]; i++)
        offer(c, words[i], typed, "");
}

void vl_command_complete(struct vl_chat *c, const char *line, size_t *at)
{
    size_t n = strcspn(line, " ");
    const struct command *cmd = find(line, n);

    *at = 0;
    if (!line[n]) {
        for (int i = 0; i < N_COMMANDS; i++)
            offer(c, commands[i].name, line, commands[i].help);
    } else if (cmd) {
        *at = n + 1;
        complete_argument(c, cmd, line + n + 1);
    }
}

const struct vl_theme *vl_command_theme(const struct vl_chat *c)
{
    const char *line = c->input.text.len ? c->input.text.ptr : "";
    const struct vl_theme *t = NULL;

    if (c->choice == VL_CHOICE_THEME && c->menu.selected < vl_n_themes)
        return &vl_themes[c->menu.selected];
    if (strncmp(line, "/theme ", 7) == 0)
        t = vl_theme_find(line + 7);
    if (!t && c->settings->theme.len)
        t = vl_theme_find(c->settings->theme.ptr);
    return t ? t : vl_theme_default(c->dark);
}

int vl_command_fade(const struct vl_chat *c)
{
    const char *line = c->input.text.len ? c->input.text.ptr : "";
    long long n;

    return strncmp(line, "/fade ", 6) == 0 && number(line + 6, 0, 100, &n) ? (int)n
                                                                           : c->settings->fade;
}

void vl_command_chosen(struct vl_chat *c, enum vl_choice choice, const char *what)
{
    switch (choice) {
    case VL_CHOICE_MODEL:
        cmd_model(c, what);
        break;
    case VL_CHOICE_THEME:
        cmd_theme(c, what);
        break;
    case VL_CHOICE_CHAT:
        cmd_load(c, what);
        break;
    default:
        break;
    }
}
