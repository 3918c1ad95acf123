/* chat/options.c: flags, environment, personas. Prints usage; starts nothing. */
#include "chat/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* Constant to the byte: a prompt that begins the same each time is read from the server's cache. */
static const char persona_vallmo[] = "You are Vallmo, a helpful assistant that runs on the user's "
                                     "own machine. Vallmo is Swedish for "
                                     "poppy. Answer in the language of the question. Be exact and "
                                     "brief: the answer first, then what "
                                     "is needed to trust it. Say so when you do not know. Use "
                                     "Markdown where it helps, code in fenced "
                                     "blocks with the name of the language.";
static const char persona_poppy[] =
    "You are Poppy, a friendly companion in the terminal. Answer in the language of the question, "
    "warmly and in few words, in plain paragraphs that read well on a narrow screen. Say so when "
    "you "
    "do not know. Code goes in fenced blocks with the name of the language.";

static const char usage[] =
    "usage: poppy [options] [question ...]\n"
    "\n"
    "Without a question, on a terminal: a chat. With one, or with text on standard input: one "
    "answer\n"
    "on standard output.  cmd | poppy \"explain this\"\n"
    "\n"
    "  --url URL            the server, with or without /v1 (OPENAI_BASE_URL; "
    "http://127.0.0.1:8080)\n"
    "  -m, --model NAME     the model to ask; needed only where the server has several\n"
    "  --persona NAME|FILE  a constant system prompt: vallmo, poppy, or the text of a file\n"
    "  --inline             a chat in the scrollback instead of the full screen\n"
    "  --continue           go on with the last chat\n"
    "  -r, --raw            the answer byte for byte\n"
    "  --color WHEN         auto, never, 16, 256, truecolor\n"
    "  --bloom              play the life of the flower once\n"
    "  -h, --help  -V, --version\n"
    "\n"
    "OPENAI_API_KEY is sent as the key. In the chat, /help tells commands and keys.\n"
    "Exit status: 0; 1 the request failed; 2 usage; 128 + n ended by signal n.\n";

static enum vl_colour colour_auto(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM"), *deep = getenv("COLORTERM");

    if (no && *no)
        return VL_COLOUR_NONE;
    if (!term || !*term || strcmp(term, "dumb") == 0)
        return VL_COLOUR_NONE;
    if (deep && (strcmp(deep, "truecolor") == 0 || strcmp(deep, "24bit") == 0))
        return VL_COLOUR_TRUE;
    if (strstr(term, "-direct") || strstr(term, "kitty") || strstr(term, "ghostty"))
        return VL_COLOUR_TRUE;
    return strstr(term, "256color") ? VL_COLOUR_256 : VL_COLOUR_16;
}

static bool colour_by_name(const char *name, enum vl_colour *c)
{
    static const struct {
        const char *name;
        enum vl_colour c;
    } names[] = {{"never", VL_COLOUR_NONE},     {"none", VL_COLOUR_NONE},
                 {"16", VL_COLOUR_16},          {"256", VL_COLOUR_256},
                 {"truecolor", VL_COLOUR_TRUE}, {"24bit", VL_COLOUR_TRUE}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i].name, name) == 0) {
            *c = names[i].c;
            return true;
        }
    return strcmp(name, "auto") == 0;
}

static bool read_persona(struct vl_options *o, const char *name)
{
    vl_error err = {0};

    vl_buf_clear(&o->persona);
    if (strcmp(name, "vallmo") == 0) {
        vl_buf_puts(&o->persona, persona_vallmo);
    } else if (strcmp(name, "poppy") == 0) {
        vl_buf_puts(&o->persona, persona_poppy);
    } else if (vl_file_read(name, (size_t)1 << 20, &o->persona, &err) != VL_OK) {
        fprintf(stderr, "poppy: --persona: %s\n", err.text);
        return false;
    }
    while (o->persona.len && o->persona.ptr[o->persona.len - 1] == '\n')
        o->persona.ptr[--o->persona.len] = 0;
    return true;
}

int vl_options_parse(struct vl_options *o, int argc, char **argv)
{
    enum { URL = 256, PERSONA, INLINE, CONTINUE, COLOUR, BLOOM };
    static const struct option flags[] = {
        {"url", required_argument, NULL, URL},         {"model", required_argument, NULL, 'm'},
        {"persona", required_argument, NULL, PERSONA}, {"inline", no_argument, NULL, INLINE},
        {"continue", no_argument, NULL, CONTINUE},     {"raw", no_argument, NULL, 'r'},
        {"color", required_argument, NULL, COLOUR},    {"colour", required_argument, NULL, COLOUR},
        {"bloom", no_argument, NULL, BLOOM},           {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},           {NULL, 0, NULL, 0}};
    const char *env = getenv("OPENAI_BASE_URL"), *term = getenv("TERM");
    int c;

    memset(o, 0, sizeof(*o));
    o->url = env && *env ? env : NULL;
    o->key = getenv("OPENAI_API_KEY");
    o->dumb = !term || !*term || strcmp(term, "dumb") == 0;
    o->colour = colour_auto();
    while ((c = getopt_long(argc, argv, "m:rhV", flags, NULL)) != -1) {
        switch (c) {
        case URL:
            o->url = optarg;
            break;
        case 'm':
            o->model = optarg;
            break;
        case INLINE:
            o->inline_view = true;
            break;
        case CONTINUE:
            o->go_on = true;
            break;
        case BLOOM:
            o->bloom = true;
            break;
        case 'r':
            o->raw = true;
            break;
        case PERSONA:
            if (!read_persona(o, optarg))
                return 1 + 2;
            break;
        case COLOUR:
            if (!colour_by_name(optarg, &o->colour)) {
                fprintf(stderr, "poppy: --color: '%s', want auto, never, 16, 256 or truecolor\n",
                        optarg);
                return 1 + 2;
            }
            break;
        case 'h':
            fputs(usage, stdout);
            return 1 + 0;
        case 'V':
            puts("poppy " VALLMO_VERSION);
            return 1 + 0;
        default:
            fputs("poppy: --help tells the options\n", stderr);
            return 1 + 2;
        }
    }
    for (int i = optind; i < argc; i++) {
        if (i > optind)
            vl_buf_putc(&o->words, ' ');
        vl_buf_puts(&o->words, argv[i]);
    }
    return 0;
}

void vl_options_fini(struct vl_options *o)
{
    vl_buf_fini(&o->words);
    vl_buf_fini(&o->persona);
}
