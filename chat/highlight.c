/* chat/highlight.c: a small scanner for comments, strings, numbers and words. It need not be a
 * parser: a wrong colour is a blemish, so one table a language is enough. Pure. */
#include "chat/highlight.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { TAB = 4 };

struct vl_language {
    const char *names;        /* separated and enclosed by blanks */
    const char *line[2];      /* what begins a comment to the end of the line */
    const char *open, *close; /* block comment, may be NULL */
    const char *quotes;       /* characters that begin and end a string */
    const char *triple;       /* a string over several lines, may be NULL */
    const char *keywords;     /* enclosed by blanks */
    const char *types;
    bool any_case;
};

#define C_WORDS                                                                                    \
    " auto break case const continue default do else enum extern for goto if inline register "     \
    "return sizeof static struct switch typedef union volatile while "
#define C_TYPES                                                                                    \
    " void char short int long float double signed unsigned bool size_t ssize_t int8_t int16_t "   \
    "int32_t int64_t uint8_t uint16_t uint32_t uint64_t FILE NULL true false "

static const struct vl_language languages[] = {
    {" c h objc glsl ", {"//", NULL}, "/*", "*/", "\"'", NULL, C_WORDS, C_TYPES, false},
    {" cpp c++ cc cxx hpp cuda cu ",
     {"//", NULL},
     "/*",
     "*/",
     "\"'",
     NULL,
     C_WORDS " class namespace template typename public private protected virtual override using "
             "new delete try catch throw constexpr nullptr operator friend this co_await noexcept ",
     C_TYPES " string vector map set auto wchar_t ",
     false},
    {" python py python3 pycon ",
     {"#", NULL},
     NULL,
     NULL,
     "\"'",
     "\"\"\"",
     " and as assert async await break class continue def del elif else except finally for from "
     "global if import in is lambda nonlocal not or pass raise return try while with yield match "
     "case ",
     " True False None self int str float bool list dict set tuple bytes object ",
     false},
    {" javascript js jsx typescript ts tsx mjs node ",
     {"//", NULL},
     "/*",
     "*/",
     "\"'",
     "`",
     " async await break case catch class const continue default delete do else export extends "
     "finally for from function if import in instanceof interface let new of return static super "
     "switch this throw try type typeof var void while yield enum implements ",
     " true false null undefined number string boolean any never unknown Promise ",
     false},
    {" rust rs ",
     {"//", NULL},
     "/*",
     "*/",
     "\"",
     NULL,
     " as async await break const continue crate dyn else enum extern fn for if impl in let loop "
     "match mod move mut pub ref return self static struct super trait type unsafe use where "
     "while ",
     " bool char f32 f64 i8 i16 i32 i64 isize u8 u16 u32 u64 usize str String Vec Option Some None "
     "Result Ok Err Self true false ",
     false},
    {" go golang ",
     {"//", NULL},
     "/*",
     "*/",
     "\"'",
     "`",
     " break case chan const continue default defer else fallthrough for func go goto if import "
     "interface map package range return select struct switch type var ",
     " bool byte error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 "
     "uint32 uint64 nil true false ",
     false},
    {" java kotlin kt scala csharp cs c# swift dart ",
     {"//", NULL},
     "/*",
     "*/",
     "\"'",
     NULL,
     " abstract as break case catch class const continue default do else enum extends final "
     "finally "
     "for fun func guard if implements import in instanceof interface internal is let namespace "
     "new "
     "object override package private protected public return sealed static struct super switch "
     "this throw throws try using val var when where while yield async await ",
     " boolean bool byte char double float int long short void string String Int Boolean List Map "
     "true false null nil ",
     false},
    {" sh bash zsh shell console fish dockerfile docker ",
     {"#", NULL},
     NULL,
     NULL,
     "\"'",
     NULL,
     " if then else elif fi for while until do done case esac in function return local export "
     "readonly set unset source exit trap shift echo cd FROM RUN COPY CMD ENTRYPOINT ENV WORKDIR ",
     " true false ",
     false},
    {" json json5 jsonc ", {"//", NULL}, "/*", "*/", "\"", NULL, " ", " true false null ", false},
    {" yaml yml toml ini conf cfg properties ",
     {"#", ";"},
     NULL,
     NULL,
     "\"'",
     NULL,
     " ",
     " true false null yes no on off ",
     false},
    {" sql psql mysql sqlite ",
     {"--", NULL},
     "/*",
     "*/",
     "\"'",
     NULL,
     " select from where and or not in is as join left right inner outer full cross on group by "
     "order having limit offset insert into values update set delete create table index view drop "
     "alter add primary key foreign references unique default case when then else end union all "
     "distinct exists between like with begin commit rollback returning ",
     " int integer bigint text varchar char boolean date timestamp numeric real null true false "
     "count sum avg min max ",
     true},
    {" html xml svg vue ", {NULL, NULL}, "<!--", "-->", "\"'", NULL, " ", " ", false},
    {" css scss less ", {NULL, NULL}, "/*", "*/", "\"'", NULL, " ", " ", false},
    {" ruby rb perl pl elixir ex r julia jl ",
     {"#", NULL},
     NULL,
     NULL,
     "\"'",
     NULL,
     " alias and begin break case class def defmodule do else elsif end ensure for foreach "
     "function "
     "if in module my next not or our redo require rescue retry return self sub super then unless "
     "until use when while yield ",
     " nil true false TRUE FALSE NULL ",
     false},
    {" lua haskell hs ",
     {"--", NULL},
     NULL,
     NULL,
     "\"'",
     NULL,
     " and break do else elseif end for function goto if in local not or repeat return then until "
     "while data type where let of case module import instance class deriving ",
     " nil true false Int String Bool Maybe Just Nothing ",
     false},
    {" make makefile cmake ",
     {"#", NULL},
     NULL,
     NULL,
     "\"",
     NULL,
     " if else endif elseif foreach endforeach function endfunction set include ifeq ifdef ifneq "
     "add_executable add_library target_link_libraries project find_package ",
     " ON OFF TRUE FALSE ",
     false},
    {" diff patch ", {NULL, NULL}, NULL, NULL, "", NULL, " ", " ", false},
};

static bool among(const char *list, const char *word, size_t len, bool any_case)
{
    for (const char *p = list; *p; p++)
        if (*p == ' ' &&
            (any_case ? strncasecmp(p + 1, word, len) : strncmp(p + 1, word, len)) == 0 &&
            p[1 + len] == ' ')
            return true;
    return false;
}

void vl_highlight_begin(struct vl_highlight *h, const char *name, size_t len)
{
    memset(h, 0, sizeof(*h));
    for (size_t i = 0; len && len < 32 && i < sizeof(languages) / sizeof(languages[0]); i++)
        if (among(languages[i].names, name, len, true))
            h->language = &languages[i];
}

static bool starts(const char *s, size_t len, const char *what)
{
    size_t n = what ? strlen(what) : 0;

    return n && n <= len && memcmp(s, what, n) == 0;
}

/* Puts text with its tabs as blanks up to the next stop. */
static void put(struct vl_span *out, size_t begin, const char *s, size_t len, vl_style style)
{
    for (size_t i = 0; i < len; i++) {
        if (s[i] != '\t') {
            size_t k = i;

            while (k < len && s[k] != '\t')
                k++;
            vl_span_put(out, s + i, k - i, style);
            i = k - 1;
            continue;
        }
        vl_span_put(out, "        ", TAB - (out->text.len - begin) % TAB, style);
    }
}

/* From inside a comment or string: bytes up to and with its end. */
static size_t rest(struct vl_highlight *h, const char *s, size_t len)
{
    size_t n = strlen(h->until);

    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(s + i, h->until, n) == 0) {
            h->until = NULL;
            return i + n;
        }
    return len;
}

static size_t quoted(const char *s, size_t len)
{
    size_t i = 1;

    while (i < len && s[i] != s[0])
        i += s[i] == '\\' && i + 1 < len ? 2 : 1;
    return i < len ? i + 1 : len;
}

static size_t word_len(const char *s, size_t len)
{
    size_t i = 0;

    while (i < len && (isalnum((unsigned char)s[i]) || s[i] == '_'))
        i++;
    return i;
}

/* One token at s: its length and style. */
static size_t token(struct vl_highlight *h, const char *s, size_t len, bool at_word,
                    vl_style *style)
{
    const struct vl_language *l = h->language;
    size_t n;

    *style = VL_STYLE(VL_ROLE_CODE, 0);
    for (int i = 0; i < 2; i++)
        if (starts(s, len, l->line[i])) {
            *style = VL_STYLE(VL_ROLE_COMMENT, VL_ATTR_ITALIC);
            return len;
        }
    if (starts(s, len, l->open) || starts(s, len, l->triple)) {
        h->is_comment = starts(s, len, l->open);
        h->until = h->is_comment ? l->close : l->triple;
        n = strlen(h->is_comment ? l->open : l->triple);
        *style = h->is_comment ? VL_STYLE(VL_ROLE_COMMENT, VL_ATTR_ITALIC) : VL_ROLE_STRING;
        return n + rest(h, s + n, len - n);
    }
    if (*s && strchr(l->quotes, *s)) {
        *style = VL_ROLE_STRING;
        return quoted(s, len);
    }
    if (!at_word && isdigit((unsigned char)*s)) {
        for (n = 1; n < len && (isalnum((unsigned char)s[n]) || s[n] == '.' || s[n] == '_'); n++)
            ;
        *style = VL_ROLE_NUMBER;
        return n;
    }
    n = word_len(s, len);
    if (n && !at_word) {
        if (among(l->keywords, s, n, l->any_case))
            *style = VL_STYLE(VL_ROLE_KEYWORD, VL_ATTR_BOLD);
        else if (among(l->types, s, n, l->any_case))
            *style = VL_ROLE_TYPE;
    }
    return n ? n : 1;
}

void vl_highlight_line(struct vl_highlight *h, const char *line, size_t len, struct vl_span *out)
{
    size_t at = 0, begin = out->text.len;
    vl_style style = VL_ROLE_CODE;

    if (!h->language || strstr(h->language->names, " diff ")) {
        if (h->language && len)
            style = line[0] == '+'   ? VL_ROLE_STRING
                    : line[0] == '-' ? VL_ROLE_ERROR
                    : line[0] == '@' ? VL_ROLE_TYPE
                                     : VL_ROLE_CODE;
        put(out, begin, line, len, style);
        return;
    }
    while (at < len) {
        size_t n;

        if (h->until) {
            style = h->is_comment ? VL_STYLE(VL_ROLE_COMMENT, VL_ATTR_ITALIC) : VL_ROLE_STRING;
            n = rest(h, line + at, len - at);
        } else {
            bool at_word = at > 0 && (isalnum((unsigned char)line[at - 1]) || line[at - 1] == '_');

            n = token(h, line + at, len - at, at_word, &style);
        }
        put(out, begin, line + at, n, style);
        at += n;
    }
}
