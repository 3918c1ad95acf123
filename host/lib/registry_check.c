/* host/lib/registry_check.c: the ABI checks of abi.h's rules: equal majors, sizes, required
 * members. Owns the list of interfaces that this host knows. Must not call into a plugin but for
 * get_ext. */
#include "host/lib/registry_check.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* A table is two uint32_t and then function pointers, all of which the first version requires. */
struct member {
    const char *name;
    size_t offset;
};
#define M(type, name)                                                                              \
    {                                                                                              \
#name, offsetof(type, name)                                                                \
    }

static const struct member loader_members[] = {
    M(vl_loader_api, probe),     M(vl_loader_api, open),   M(vl_loader_api, close),
    M(vl_loader_api, format),    M(vl_loader_api, text),   M(vl_loader_api, vocab),
    M(vl_loader_api, n_tensors), M(vl_loader_api, tensor), M(vl_loader_api, find),
    M(vl_loader_api, data),      M(vl_loader_api, read),   M(vl_loader_api, prefer),
    M(vl_loader_api, heads),     M(vl_loader_api, memory),
};
static const struct member tokenizer_members[] = {
    M(vl_tokenizer_api, probe),          M(vl_tokenizer_api, create),
    M(vl_tokenizer_api, destroy),        M(vl_tokenizer_api, encode),
    M(vl_tokenizer_api, n_tokens),       M(vl_tokenizer_api, find),
    M(vl_tokenizer_api, token),          M(vl_tokenizer_api, flags),
    M(vl_tokenizer_api, stop_ids),       M(vl_tokenizer_api, max_token_bytes),
    M(vl_tokenizer_api, decoder_create), M(vl_tokenizer_api, decoder_destroy),
    M(vl_tokenizer_api, decoder_push),   M(vl_tokenizer_api, decoder_flush),
};
static const struct member model_members[] = {
    M(vl_model_api, accepts),        M(vl_model_api, estimate),     M(vl_model_api, open),
    M(vl_model_api, close),          M(vl_model_api, info),         M(vl_model_api, health),
    M(vl_model_api, sequence_begin), M(vl_model_api, sequence_end), M(vl_model_api, submit),
    M(vl_model_api, collect),        M(vl_model_api, pool),         M(vl_model_api, get_ext),
};
static const struct member chat_members[] = {
    M(vl_chat_api, create),        M(vl_chat_api, destroy),
    M(vl_chat_api, format),        M(vl_chat_api, render),
    M(vl_chat_api, prompt_free),   M(vl_chat_api, view),
    M(vl_chat_api, constraint),    M(vl_chat_api, close_thought),
    M(vl_chat_api, parser_create), M(vl_chat_api, parser_destroy),
    M(vl_chat_api, feed),          M(vl_chat_api, finish),
    M(vl_chat_api, state),         M(vl_chat_api, reasoning_tokens),
};
#undef M

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct interface {
    const char *id;
    const char *kind; /* NULL: an option beside a kind */
    size_t size;
    const struct member *members;
    size_t n_members;
    size_t slot; /* of the table's pointer in vl_registry_entry */
} interfaces[] = {
    {VL_LOADER_ID, "loader", sizeof(vl_loader_api), loader_members, COUNT(loader_members),
     offsetof(vl_registry_entry, loader)},
    {VL_TOKENIZER_ID, "tokenizer", sizeof(vl_tokenizer_api), tokenizer_members,
     COUNT(tokenizer_members), offsetof(vl_registry_entry, tokenizer)},
    {VL_MODEL_ID, "model", sizeof(vl_model_api), model_members, COUNT(model_members),
     offsetof(vl_registry_entry, model)},
    {VL_CHAT_ID, NULL, sizeof(vl_chat_api), chat_members, COUNT(chat_members),
     offsetof(vl_registry_entry, chat)},
};

/* What every table begins with. */
struct head {
    uint32_t struct_size;
    uint32_t abi_version;
};

static vl_status check_version(const char *what, uint32_t version, vl_error *err)
{
    if (VL_ABI_MAJOR_OF(version) != VL_ABI_MAJOR)
        return vl_error_set(err, VL_E_ABI, "%s: ABI version %u.%u, this host has %u.%u", what,
                            VL_ABI_MAJOR_OF(version), VL_ABI_MINOR_OF(version), VL_ABI_MAJOR,
                            VL_ABI_MINOR);
    return VL_OK;
}

static vl_status check_table(const struct interface *i, const void *table, vl_error *err)
{
    struct head head;

    memcpy(&head, table, sizeof head);
    vl_status rc = check_version(i->id, head.abi_version, err);
    if (rc != VL_OK)
        return rc;
    if (head.struct_size < i->size)
        return vl_error_set(err, VL_E_ABI, "%s: table of %u bytes, want at least %zu", i->id,
                            head.struct_size, i->size);
    for (size_t m = 0; m < i->n_members; m++) {
        void (*fn)(void);
        memcpy(&fn, (const char *)table + i->members[m].offset, sizeof fn);
        if (fn == NULL)
            return vl_error_set(err, VL_E_ABI, "%s: member %s is NULL, want a function", i->id,
                                i->members[m].name);
    }
    return VL_OK;
}

static vl_status check_id(const char *id, vl_error *err)
{
    size_t len = id != NULL ? strnlen(id, 65) : 0;

    if (len == 0 || len > 64)
        return vl_error_set(err, VL_E_ABI, "plugin id has %zu bytes, want 1 to 64", len);
    for (size_t i = 0; i < len; i++) {
        char c = id[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return vl_error_set(err, VL_E_ABI, "plugin id \"%s\": want only a-z, 0-9, _ and -", id);
    }
    return VL_OK;
}

static vl_status check_head(const vl_plugin *p, vl_error *err)
{
    /* The version comes first: with another major the rest means something else. */
    vl_status rc = check_version("vl_plugin", p->abi_version, err);
    if (rc != VL_OK)
        return rc;
    if (p->struct_size < sizeof *p)
        return vl_error_set(err, VL_E_ABI, "vl_plugin: table of %u bytes, want at least %zu",
                            p->struct_size, sizeof *p);
    if (p->version == NULL || p->description == NULL || p->interfaces == NULL)
        return vl_error_set(err, VL_E_ABI, "vl_plugin: member %s is NULL, want a value",
                            p->version == NULL       ? "version"
                            : p->description == NULL ? "description"
                                                     : "interfaces");
    if (p->init == NULL || p->fini == NULL || p->get_ext == NULL)
        return vl_error_set(err, VL_E_ABI, "vl_plugin: member %s is NULL, want a function",
                            p->init == NULL   ? "init"
                            : p->fini == NULL ? "fini"
                                              : "get_ext");
    if (p->n_options > 0 && p->options == NULL)
        return vl_error_set(err, VL_E_ABI, "vl_plugin: options is NULL, want %llu of them",
                            (unsigned long long)p->n_options);
    return check_id(p->id, err);
}

vl_status vl_registry_check(const vl_plugin *p, vl_registry_entry *e, vl_error *err)
{
    static const char *const kinds[] = {
        "",      "loader",       "tokenizer",       "loader+tokenizer",
        "model", "loader+model", "tokenizer+model", "loader+tokenizer+model"};
    unsigned kind = 0;
    vl_status rc = check_head(p, err);

    if (rc != VL_OK)
        return rc;
    for (size_t i = 0; i < COUNT(interfaces); i++) {
        const void *table = p->get_ext(interfaces[i].id);
        if (table == NULL)
            continue;
        rc = check_table(&interfaces[i], table, err);
        if (rc != VL_OK)
            return rc;
        memcpy((char *)e + interfaces[i].slot, &table, sizeof table);
        if (interfaces[i].kind != NULL)
            kind |= 1u << i;
    }
    if (kind == 0)
        return vl_error_set(err, VL_E_ABI, "offers none of %s, %s, %s", VL_LOADER_ID,
                            VL_TOKENIZER_ID, VL_MODEL_ID);
    e->kind = kinds[kind];
    return VL_OK;
}
