/* unit.chat_parse: outputs to events, however they are cut into tokens. */
#include "tests/unit/chat_kit.h"

#include <stdlib.h>
#include <string.h>

#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", "              \
    "\"parameters\": "                                                                             \
    "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": "         \
    "{\"type\": "                                                                                  \
    "\"integer\"}, \"opts\": {\"type\": \"object\"}, \"maybe\": {\"type\": [\"string\", "          \
    "\"null\"]}}, "                                                                                \
    "\"required\": [\"city\"]}}}, {\"type\": \"function\", \"function\": {\"name\": \"get\"}}, "   \
    "{\"type\": \"function\", \"function\": {\"name\": \"now\"}}]"
#define USER "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]"
#define THINK USER ", " TOOLS ", \"enable_thinking\": true}"
#define PLAIN USER ", " TOOLS ", \"enable_thinking\": false}"
#define THINK_BARE USER ", \"enable_thinking\": true}"
#define PLAIN_BARE USER ", \"enable_thinking\": false}"
#define CONTINUED                                                                                  \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", "         \
    "\"content\": "                                                                                \
    "\"y\"}], \"continue_final_message\": true}"

#define CALL_PARIS "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n"
#define PARIS "{\"city\":\"Paris\"}"

struct sample {
    const char *request, *output, *want;
    int how;
};

enum { STOP = VL_CHAT_END_STOP, LENGTH = VL_CHAT_END_LENGTH };

static const struct sample samples[] = {
    /* plain, thought and answer */
    {PLAIN, "Hello there.", "C(Hello there.)", STOP},
    {PLAIN, "", "", STOP},
    {PLAIN, "\r\n\n  indented\n\n", "C(  indented\n\n)", STOP},
    {PLAIN, "a\n", "C(a\n)", LENGTH},
    {PLAIN, " \n ", "C( \n )", STOP},
    {THINK, "\n Think. \n\n more\n" XTH "\n\nAnswer \xf0\x9f\x8c\xba.",
     "R(Think. \n\n more)C(Answer \xf0\x9f\x8c\xba.)", STOP},
    {THINK, "\xe3\x80\x80\xe2\x80\xa8Think.\xe3\x80\x80" XTH "x", "R(Think.)C(x)", STOP},
    {THINK, "Cut in the thou", "R(Cut in the thou)", LENGTH},
    {THINK, "All thought. ", "R(All thought.)", STOP},
    {THINK, "", "", STOP},
    {THINK, XTH "\n\nx", "C(x)", STOP},
    {THINK, "a " TH " b " TH "c" XTH XTH "\n" XTH "\nd" XTH " e", "R(a  b c)C(d e)", STOP},
    {PLAIN, "\n" TH "late thought" XTH "\n\nx", "R(late thought)C(x)", STOP},
    {PLAIN, "a" TH "b" XTH "c", "C(a<think>bc)", STOP},
    {PLAIN, "spelled <think> and </think> and <tool_call>",
     "C(spelled <think> and </think> and <tool_call>)", STOP},
    {CONTINUED, "\n\nmore" TH, "C(\n\nmore<think>)", STOP},
    /* calls */
    {THINK, "Need it." XTH "\n\n" TC "\n" CALL_PARIS XTC,
     "R(Need it.)T0(get_weather)A(" PARIS ")E0()", STOP},
    {THINK, "Need it.\n" TC "\n" CALL_PARIS XTC, "R(Need it.)T0(get_weather)A(" PARIS ")E0()",
     STOP},
    {THINK, "The tag " TC " is mentioned, and " TC "\n<functio" XTH "x",
     "R(The tag <tool_call> is mentioned, and <tool_call>\n<functio)C(x)", STOP},
    {THINK, "Say " TC, "R(Say <tool_call>)", STOP},
    {THINK, "Say " TC "\n <func", "R(Say <tool_call>\n <func)", LENGTH},
    {THINK_BARE, "No tools: " TC "\n" CALL_PARIS XTC XTH "\n" TC CALL_PARIS XTC,
     "R(No tools: <tool_call>\n" CALL_PARIS "</tool_call>)C(<tool_call>" CALL_PARIS "</tool_call>)",
     STOP},
    {PLAIN, TC "\n" CALL_PARIS XTC "\n" TC "\n<function=now>\n</function>\n" XTC "\n",
     "T0(get_weather)A(" PARIS ")E0()T1(now)A({})E1()", STOP},
    {PLAIN, "Checking both.\n\n" TC "\n" CALL_PARIS XTC,
     "C(Checking both.)T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN, TC "\n" CALL_PARIS XTC "\n\nDone. ", "T0(get_weather)A(" PARIS ")E0()C(Done. )", STOP},
    {PLAIN, "A" TC CALL_PARIS XTC "\nB", "C(A)T0(get_weather)A(" PARIS ")E0()C(\nB)", STOP},
    {PLAIN,
     TC "  <function=get_weather>  <parameter=days>3</parameter> "
        "<parameter=city>x</parameter></function>" XTC,
     "T0(get_weather)A({\"days\":3,\"city\":\"x\"})E0()", STOP},
    {PLAIN,
     TC "<function name=\"get_weather\"><parameter name='city'>\nx\n</parameter></function>" XTC,
     "T0(get_weather)A({\"city\":\"x\"})E0()", STOP},
    {PLAIN, TC "<function= \"now\" >\n</function>" XTC, "T0(now)A({})E0()", STOP},
    {PLAIN,
     TC "\n<function=unknown_tool>\n<parameter=a>\n007\n</parameter>\n<parameter=b>\n[1, "
        "2]\n</parameter>\n</function>\n" XTC,
     "T0(unknown_tool)A({\"a\":\"007\",\"b\":[1,2]})E0()", STOP},
    /* values */
    {PLAIN,
     TC
     "\n<function=get_weather>\n<parameter=city>\n\n  a\n\n b \n\n</parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"city\":\"\\n  a\\n\\n b \\n\"})E0()", STOP},
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=city>\n\n</parameter>\n<parameter=maybe>\n</"
        "parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"city\":\"\",\"maybe\":\"\"})E0()", STOP},
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=city>\nuse </parameter> to close, "
        "<b>\n</parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"city\":\"use </parameter> to close, <b>\"})E0()", STOP},
    {PLAIN,
     TC
     "\n<function=get_weather>\n<parameter=city>\n\"\\\t\xc3\xa9\n</parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"city\":\"\\\"\\\\\\t\xc3\xa9\"})E0()", STOP},
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=opts>\n{\"a\": [1, "
        "2.0]}\n</parameter>\n<parameter=maybe>\nNone\n</parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"opts\":{\"a\":[1,2.0]},\"maybe\":null})E0()", STOP},
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=city>\na" XTC "b" TC "c" TH "d" XTH
        "\n</parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"city\":\"a</tool_call>b<tool_call>c<think>d</think>\"})E0()", STOP},
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=city>\na\n</parameter>\n<parameter=city>\nb\n</"
        "parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"city\":\"a\",\"city\":\"b\"})E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=a\"b>\nx\n</parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"a\\\"b\":\"x\"})E0()", STOP},
    /* repairs */
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n</parameter>\n</"
        "function>\n" XTC,
     "T0(get_weather)A({\"city\":\"Paris\",\"days\":3})E0()", STOP},
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=city>\n<parameter=days>\n3\n</parameter>\n</"
        "function>\n" XTC,
     "T0(get_weather)A({\"city\":\"\",\"days\":3})E0()", STOP},
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=other>\n<parameter=city>\n</"
        "parameter>\n</function>\n" XTC,
     "T0(get_weather)A({\"city\":\"Paris\\n<parameter=other>\\n<parameter=city>\"})E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</function>\n" XTC,
     "T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</function>\n",
     "T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN,
     TC "\n<function=get_weather>\n<parameter=city>\nParis\n</function> is "
        "text\n</parameter>\n</function>" XTC,
     "T0(get_weather)A({\"city\":\"Paris\\n</function> is text\"})E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n",
     "T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n" XTC,
     "T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n",
     "T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n" XTC,
     "T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n",
     "T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nPar",
     "T0(get_weather)A({\"city\":\"Par\"})E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=days>\n3",
     "T0(get_weather)A({\"days\":3})E0()", STOP},
    {PLAIN, TC "\n<function=get_weather>\n" TC "\n<function=now>\n</function>\n" XTC,
     "T0(get_weather)A({})E0()T1(now)A({})E1()", STOP},
    {PLAIN, TC "\n<function=now", "T0(now)A({})E0()", STOP},
    {PLAIN, TC "\n<function=now\n</function>\n" XTC, "T0(now)A({})E0()", STOP},
    {PLAIN, TC "\n<function=now>\n</function>\n</tool_call>", "T0(now)A({})E0()", STOP},
    {PLAIN, TC "\n<function=now>\n</parameter>\nwhat is\nthis\n</function>\n" XTC "x",
     "T0(now)A({})E0()C(what is\nthisx)", STOP},
    /* no wrapper */
    {PLAIN, "Text\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n",
     "C(Text)T0(get_weather)A(" PARIS ")E0()", STOP},
    {PLAIN, "<function=now>\n</function>\n" XTC "\nx", "T0(now)A({})E0()C(x)", STOP},
    {PLAIN, "in a line <function=now>, <function=no>\n<function=nowhere>\n<function=get",
     "C(in a line <function=now>, <function=no>\n<function=nowhere>\n<function=get)", STOP},
    /* hopeless */
    {PLAIN, TC "\n{\"name\": \"now\"}\n" XTC, "C(<tool_call>\n{\"name\": \"now\"}\n</tool_call>)",
     STOP},
    {PLAIN, TC "\n<function=>\n</function>\n" XTC "\n<function=now>\n</function>",
     "C(<tool_call>\n<function=>\n</function>\n</tool_call>)T0(now)A({})E0()", STOP},
    {PLAIN, TC "\n<function=no", "C(<tool_call>\n<function=no)", STOP},
    {PLAIN, XTC " stray", "C(</tool_call> stray)", STOP},
    /* cut by the limit: nothing is closed */
    {PLAIN, TC "\n<function=get_wea", "C(<tool_call>\n<function=get_wea)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>", "T0(get_weather)A({)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=ci", "T0(get_weather)A({)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>", "T0(get_weather)A({\"city\":\")",
     LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nPar",
     "T0(get_weather)A({\"city\":\"Par)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</para",
     "T0(get_weather)A({\"city\":\"Paris)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>",
     "T0(get_weather)A({\"city\":\"Paris)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n" XTC,
     "T0(get_weather)A({\"city\":\"Paris)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<",
     "T0(get_weather)A({\"city\":\"Paris)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function",
     "T0(get_weather)A({\"city\":\"Paris)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=opts>\n{\"a\": [1",
     "T0(get_weather)A({\"opts\":{\"a\": [1)", LENGTH},
    {PLAIN, TC "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n",
     "T0(get_weather)A(" PARIS ")E0()", LENGTH},
};

static void check(const vl_chat *c, const struct sample *s, kit_split split, vl_buf *got)
{
    kit_parse(c, s->request, s->output, strlen(s->output), s->how, split, got);
    if (strcmp(got->ptr, s->want) != 0)
        fail_msg("split %d, %zu, seed %u of\n%s\n got %s\nwant %s", split.how, split.cut,
                 split.seed, s->output, got->ptr, s->want);
}

/* Each output whole, character by character, cut in two at every byte, and in many random ways:
 * always the same events. */
static void test_parse_samples_however_they_are_cut(void **state)
{
    vl_chat *c = kit_chat("qwen3.5", 0);
    vl_buf got = VL_BUF_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const struct sample *s = &samples[i];
        check(c, s, (kit_split){.how = KIT_WHOLE}, &got);
        check(c, s, (kit_split){.how = KIT_CHARS}, &got);
        for (size_t cut = 1; cut < strlen(s->output); cut++)
            check(c, s, (kit_split){.how = KIT_CUT, .cut = cut}, &got);
        for (uint32_t seed = 0; seed < 50; seed++)
            check(c, s, (kit_split){.how = KIT_RANDOM, .seed = seed}, &got);
    }
    vl_buf_fini(&got);
    kit_api->destroy(c);
}

/* The answers of the published examples: what stands in the history parses back to the fields it
 * was rendered from. */
static void test_parse_published_turns_come_back(void **state)
{
    static const struct sample turns[] = {
        {THINK,
         "I need the tool.\n" XTH "\n\n" TC
         "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</"
         "parameter>\n</function>\n" XTC,
         "R(I need the tool.)T0(get_weather)A({\"city\":\"Paris\",\"days\":2})E0()", STOP},
        {THINK,
         "\n" XTH "\n\nChecking both.\n\n" TC "\n" CALL_PARIS XTC "\n" TC
         "\n<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n" XTC,
         "C(Checking both.)T0(get_weather)A(" PARIS
         ")E0()T1(get_weather)A({\"city\":\"Oslo\"})E1()",
         STOP},
        {THINK,
         "\n" XTH "\n\n" TC
         "\n<function=f>\n<parameter=s>\nx\ny\n</parameter>\n<parameter=l>\n[1, \"\xc3\xa9\", "
         "null]\n</parameter>\n<parameter=o>\n{\"k\": false}\n</parameter>\n</function>\n" XTC,
         "T0(f)A({\"s\":\"x\\ny\",\"l\":[1,\"\xc3\xa9\",null],\"o\":{\"k\":false}})E0()", STOP},
        {THINK, "Easy.\n" XTH "\n\n2", "R(Easy.)C(2)", STOP},
        {PLAIN, "Hello!", "C(Hello!)", STOP},
    };
    vl_chat *c = kit_chat("qwen3.5", 0);
    vl_buf got = VL_BUF_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
        check(c, &turns[i], (kit_split){.how = KIT_CHARS}, &got);
        for (size_t cut = 0; cut < strlen(turns[i].output); cut++)
            check(c, &turns[i], (kit_split){.how = KIT_CUT, .cut = cut}, &got);
    }
    vl_buf_fini(&got);
    kit_api->destroy(c);
}

/* Does a line of the value begin with tag? */
static bool opens(const char *value, const char *tag)
{
    for (const char *at = value; (at = strstr(at, tag)) != NULL; at++) {
        if (at == value || at[-1] == '\n')
            return true;
    }
    return false;
}

/* A closer directly before an opener, or an opener of a property that is still to come: no rule can
 * tell these from markup. */
static bool is_ambiguous(const char *value, bool city_seen)
{
    static const char *const behind[] = {"<parameter=", "</function>", "</tool_call>"};

    for (const char *at = value; (at = strstr(at, "</parameter>")) != NULL;) {
        at += strlen("</parameter>");
        const char *next = at + strspn(at, " \n\t\r");
        for (int i = 0; i < 3; i++) {
            if (strncmp(next, behind[i], strlen(behind[i])) == 0)
                return true;
        }
    }
    for (const char *at = value; (at = strstr(at, "</function>")) != NULL;) {
        bool starts = at == value || at[-1] == '\n';
        at += strlen("</function>");
        const char *next = at + strspn(at, " \n\t\r");
        if (starts && (strncmp(next, "</tool_call>", 12) == 0 || *next == '\x04'))
            return true;
    }
    for (const char *at = value; (at = strchr(at, '\x04')) != NULL; at++) {
        const char *p = at; /* a real </tool_call> behind a closer */
        while (p > value && strchr(" \n\t\r", p[-1]))
            p--;
        if (p - value >= 12 && strncmp(p - 12, "</parameter>", 12) == 0)
            return true;
    }
    return opens(value, "<parameter=days>") || (!city_seen && opens(value, "<parameter=city>"));
}

/* 20,000 random values full of the tags, structural tokens among them, as a string and as a
 * parameter without schema. */
static void test_parse_random_values_come_back(void **state)
{
    static const char *const atoms[] = {"</parameter>",
                                        "<parameter=",
                                        "<parameter=city>",
                                        "<parameter=days>",
                                        "</function>",
                                        "<function=now>",
                                        "</tool_call>",
                                        "<tool_call>",
                                        "\n",
                                        "\n",
                                        " ",
                                        "x",
                                        "<",
                                        "</",
                                        "\xc3\xa9",
                                        "\"",
                                        "\\",
                                        TC,
                                        XTC,
                                        TH,
                                        XTH};
    static const char *const spelled[] = {"<think>", "</think>", "<tool_call>", "</tool_call>"};
    vl_chat *c = kit_chat("qwen3.5", 0);
    vl_buf value = VL_BUF_INIT, text = VL_BUF_INIT, out = VL_BUF_INIT, want = VL_BUF_INIT,
           got = VL_BUF_INIT;
    uint32_t seed = 2026;
    int n_checked = 0;
    (void)state;
    for (int i = 0; n_checked < 20000; i++) {
        vl_buf_clear(&value);
        vl_buf_clear(&text);
        vl_buf_clear(&out);
        vl_buf_clear(&want);
        seed = seed * 1664525u + 1013904223u;
        for (uint32_t n = (seed >> 20) % 9, k = 0; k <= n; k++) {
            seed = seed * 1664525u + 1013904223u;
            vl_buf_puts(&value, atoms[(seed >> 12) % (sizeof(atoms) / sizeof(atoms[0]))]);
        }
        bool typed = i % 2 == 0;
        if (is_ambiguous(value.ptr, typed))
            continue;
        for (size_t k = 0; k < value.len; k++) {
            if (value.ptr[k] >= 1 && value.ptr[k] <= 4)
                vl_buf_puts(&text, spelled[value.ptr[k] - 1]);
            else
                vl_buf_putc(&text, value.ptr[k]);
        }
        vl_buf_printf(
            &out,
            TC "\n<function=get_weather>\n<parameter=%s>\n%s\n</parameter>\n</function>\n" XTC,
            typed ? "city" : "zz", value.ptr);
        vl_buf_printf(&want, "T0(get_weather)A({\"%s\":", typed ? "city" : "zz");
        vl_json_put_str(&want, text.ptr, text.len);
        vl_buf_puts(&want, "})E0()");
        kit_split split = {.how = i % 3 == 0   ? KIT_CHARS
                                  : i % 3 == 1 ? KIT_RANDOM
                                               : KIT_WHOLE,
                           .seed = (uint32_t)i};
        kit_parse(c, PLAIN, out.ptr, out.len, STOP, split, &got);
        if (strcmp(got.ptr, want.ptr) != 0)
            fail_msg("split %d of\n%s\n got %s\nwant %s", split.how, out.ptr, got.ptr, want.ptr);
        n_checked++;
    }
    vl_buf_fini(&value);
    vl_buf_fini(&text);
    vl_buf_fini(&out);
    vl_buf_fini(&want);
    vl_buf_fini(&got);
    kit_api->destroy(c);
}

/* Random outputs of structure alone: any cut gives the events of the whole, and the arguments of a
 * closed call are one JSON object. */
static void test_parse_random_outputs_do_not_depend_on_the_cut(void **state)
{
    static const char *const atoms[] = {"</parameter>",
                                        "<parameter=city>",
                                        "<parameter=days>\n",
                                        "<parameter name=x>",
                                        "</function>",
                                        "<function=now>",
                                        "<function=get_weather>",
                                        "<function=",
                                        "\n",
                                        "\n\n",
                                        " ",
                                        "x y",
                                        "<",
                                        "12",
                                        "{\"a\":1}",
                                        TC,
                                        XTC,
                                        TH,
                                        XTH,
                                        TC "\n<function=get_weather>\n"};
    vl_chat *c = kit_chat("qwen3.5", 0);
    vl_buf out = VL_BUF_INIT, want = VL_BUF_INIT, got = VL_BUF_INIT;
    uint32_t seed = 77;
    (void)state;
    for (int i = 0; i < 30000; i++) {
        vl_buf_clear(&out);
        seed = seed * 1664525u + 1013904223u;
        for (uint32_t n = (seed >> 20) % 14, k = 0; k <= n; k++) {
            seed = seed * 1664525u + 1013904223u;
            vl_buf_puts(&out, atoms[(seed >> 12) % (sizeof(atoms) / sizeof(atoms[0]))]);
        }
        const char *request = i & 1 ? PLAIN : i & 4 ? THINK_BARE : THINK;
        int how = i & 2 ? STOP : LENGTH;
        kit_parse(c, request, out.ptr, out.len, how, (kit_split){.how = KIT_WHOLE}, &want);
        for (int k = 0; k < 3; k++) {
            kit_parse(c, request, out.ptr, out.len, how,
                      (kit_split){.how = k ? KIT_RANDOM : KIT_CHARS, .seed = seed + (uint32_t)k},
                      &got);
            if (strcmp(got.ptr, want.ptr) != 0)
                fail_msg("%s\n got %s\nwant %s", out.ptr, got.ptr, want.ptr);
        }
        for (const char *at = want.ptr; (at = strstr(at, "A({")) != NULL; at++) {
            const char *end = strstr(at, ")E");
            vl_json_doc doc;
            if (!end)
                break;
            if (vl_json_parse(&doc, at + 2, (size_t)(end - at - 2), 64, 0, NULL) != VL_OK)
                fail_msg("%s\n%s", out.ptr, want.ptr);
            vl_json_doc_fini(&doc);
        }
    }
    vl_buf_fini(&out);
    vl_buf_fini(&want);
    vl_buf_fini(&got);
    kit_api->destroy(c);
}

/* ---- state, tokens, stopping ---- */

struct step {
    int32_t id;
    const char *text;
    int state;       /* after it */
    int n_reasoning; /* after it */
};

enum { ID_TH = 5000, ID_XTH, ID_TC, ID_XTC, ID_TEXT = 7 };

struct seen {
    vl_buf text;
    int stop_after;
};

static int32_t note(void *user, const vl_chat_event *e)
{
    struct seen *s = user;
    vl_buf_printf(&s->text, "%d:%.*s[%d,%d) ", e->kind, (int)e->text.len,
                  e->text.ptr ? e->text.ptr : "", (int)e->first_token, (int)e->end_token);
    return s->stop_after-- == 0;
}

static vl_chat_parser *parser(const vl_chat *c, const char *request)
{
    vl_chat_prompt *prompt = NULL;
    vl_chat_parser *p = NULL;
    assert_int_equal(kit_api->render(c, (vl_bytes){request, strlen(request)}, &prompt, NULL, NULL),
                     VL_OK);
    assert_int_equal(kit_api->parser_create(c, prompt, &p, NULL), VL_OK);
    kit_api->prompt_free(prompt);
    return p;
}

static void walk(const vl_chat *c, const char *request, const struct step *steps, size_t n,
                 const char *want)
{
    struct seen s = {VL_BUF_INIT, -1};
    vl_chat_parser *p = parser(c, request);

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(kit_api->feed(p, steps[i].id,
                                       (vl_bytes){steps[i].text, strlen(steps[i].text)}, note, &s,
                                       NULL),
                         VL_OK);
        if (kit_api->state(p) != steps[i].state ||
            (int)kit_api->reasoning_tokens(p) != steps[i].n_reasoning)
            fail_msg("step %zu: state %d, %d reasoning tokens", i, kit_api->state(p),
                     (int)kit_api->reasoning_tokens(p));
    }
    assert_int_equal(kit_api->finish(p, STOP, note, &s, NULL), VL_OK);
    assert_string_equal(s.text.ptr, want);
    vl_buf_fini(&s.text);
    kit_api->parser_destroy(p);
}

static void test_parse_state_and_token_ranges(void **state)
{
    static const struct step answer[] = {
        {ID_TEXT, "Hm", VL_CHAT_REASONING, 1},
        {ID_TEXT, ".\n", VL_CHAT_REASONING, 2},
        {ID_XTH, "</think>", VL_CHAT_CONTENT, 3},
        {ID_TEXT, "\n\n", VL_CHAT_CONTENT, 3},
        {ID_TEXT, "One ", VL_CHAT_CONTENT, 3},
        {ID_TEXT, "", VL_CHAT_CONTENT, 3},
        {ID_TEXT, "\xf0\x9f\x8c\xba", VL_CHAT_CONTENT, 3},
        {ID_TEXT, " ", VL_CHAT_CONTENT, 3},
        {ID_TEXT, "two", VL_CHAT_CONTENT, 3},
    };
    /* A call within the thought; the decoder leaves out the tag's text; one token ends one thing
     * and begins the next. */
    static const struct step call[] = {
        {ID_TEXT, "Hm", VL_CHAT_REASONING, 1},        {ID_TC, "", VL_CHAT_TOOL, 2},
        {ID_TEXT, "\n<function", VL_CHAT_TOOL, 3},    {ID_TEXT, "=now", VL_CHAT_TOOL, 1},
        {ID_TEXT, ">\n</function>", VL_CHAT_TOOL, 1}, {ID_XTC, "</tool_call>", VL_CHAT_CONTENT, 1},
        {ID_TEXT, "ok", VL_CHAT_CONTENT, 1},
    };
    /* A tag that is only talked about. */
    static const struct step talk[] = {
        {ID_TC, "<tool_call>", VL_CHAT_TOOL, 1},
        {ID_TEXT, " is", VL_CHAT_REASONING, 2},
        {ID_XTH, "</think>", VL_CHAT_CONTENT, 3},
        {ID_TEXT, "\n", VL_CHAT_CONTENT, 3},
        {ID_TH, "<think>", VL_CHAT_REASONING, 3},
        {ID_TEXT, "b", VL_CHAT_REASONING, 4},
        {ID_XTH, "\xef\xbf\xbd</think>", VL_CHAT_CONTENT, 5},
        {ID_TEXT, "c", VL_CHAT_CONTENT, 5},
    };
    vl_chat *c = kit_chat("qwen3.5", 0);
    (void)state;
    walk(c, THINK, answer, 9,
         "0:Hm[0,1) 0:.[1,2) 1:One[4,5) 1: \xf0\x9f\x8c\xba[5,7) 1: two[7,9) ");
    walk(c, THINK, call, 7, "0:Hm[0,1) 2:now[1,5) 3:{[5,5) 3:}[5,5) 4:[5,5) 1:ok[6,7) ");
    walk(c, THINK, talk, 8, "0:<tool_call> is[0,2) 0:b[5,6) 0:\xef\xbf\xbd[6,7) 1:c[7,8) ");
    kit_api->destroy(c);
}

static void test_parse_receiver_can_stop(void **state)
{
    static const char text[] = "Hello " TC;
    struct seen s = {VL_BUF_INIT, 1};
    vl_chat *c = kit_chat("qwen3.5", 0);
    vl_chat_parser *p = parser(c, PLAIN);
    vl_error err = {0};
    (void)state;
    assert_int_equal(kit_api->feed(p, ID_TEXT, (vl_bytes){text, 5}, note, &s, &err), VL_OK);
    assert_int_equal(kit_api->feed(p, ID_TEXT, (vl_bytes){text, 5}, note, &s, &err),
                     VL_E_CANCELLED);
    assert_int_equal(err.status, VL_E_CANCELLED);
    assert_string_equal(s.text.ptr, "1:Hello[0,1) 1:Hello[1,2) ");
    kit_api->parser_destroy(p);
    kit_api->parser_destroy(NULL);
    kit_api->destroy(c);
    vl_buf_fini(&s.text);
}

/* A held value of 2 MB with 100,000 tags in it, one character at a time: linear, or this would not
 * end. */
static void test_parse_long_values_take_linear_time(void **state)
{
    struct seen s = {VL_BUF_INIT, -1};
    vl_chat *c = kit_chat("qwen3.5", 0);
    vl_chat_parser *p = parser(c, PLAIN);
    static const char *const head[] = {"\n<function=get_weather>\n<parameter=opts>\n",
                                       "</parameter>\n</function>"};
    (void)state;
    assert_int_equal(kit_api->feed(p, ID_TC, (vl_bytes){"<tool_call>", 11}, note, &s, NULL), VL_OK);
    assert_int_equal(
        kit_api->feed(p, ID_TEXT, (vl_bytes){head[0], strlen(head[0])}, note, &s, NULL), VL_OK);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(kit_api->feed(p, ID_XTC, (vl_bytes){"</tool_call>", 12}, note, &s, NULL),
                         VL_OK);
        assert_int_equal(kit_api->feed(p, ID_TEXT, (vl_bytes){"\nabc def ", 9}, note, &s, NULL),
                         VL_OK);
    }
    assert_int_equal(
        kit_api->feed(p, ID_TEXT, (vl_bytes){head[1], strlen(head[1])}, note, &s, NULL), VL_OK);
    assert_int_equal(kit_api->finish(p, STOP, note, &s, NULL), VL_OK);
    assert_true(s.text.len > 2000000);
    kit_api->parser_destroy(p);
    kit_api->destroy(c);
    vl_buf_fini(&s.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_samples_however_they_are_cut),
        cmocka_unit_test(test_parse_published_turns_come_back),
        cmocka_unit_test(test_parse_random_values_come_back),
        cmocka_unit_test(test_parse_random_outputs_do_not_depend_on_the_cut),
        cmocka_unit_test(test_parse_state_and_token_ranges),
        cmocka_unit_test(test_parse_receiver_can_stop),
        cmocka_unit_test(test_parse_long_values_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
