/* vallmo/abi.h: what every interface of Vallmo is made of: versions, status codes, errors, tables.
 *
 * The rules of the ABI, in one place:
 *  - A table or struct that crosses between host and plugin begins with `uint32_t struct_size`,
 *    set by sizeof by whoever fills it. A table also has `uint32_t abi_version`.
 *  - New members are added at the tail only, and a reader asks VL_HAS before it reads one that
 *    was not in the first version. Members are never removed, reordered or given another
 *    meaning; a changed interface gets a new id ("vl.model/2") and lives beside the old one.
 *  - Members have fixed width; enumerations are int32_t; there are no bit fields and no padding,
 *    so that a new member can't fall into old padding (tests/abi compiles it with -Wpadded).
 *  - A pointer that is handed out is borrowed unless its comment says otherwise, and the comment
 *    says until when. Who allocates, frees. No malloc'ed memory, FILE *, errno or exit() crosses.
 *  - Thread tags: [loop] the server's event loop thread: never blocks. [engine] the one engine
 *    thread of a model, calls in order. [any] any thread, at any time, also at once with itself.
 *    [open] the thread that opens or closes the object; no other call on it runs meanwhile.
 *  - After a call that failed, outputs are untouched unless its comment says otherwise.
 */
#ifndef VALLMO_ABI_H
#define VALLMO_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Major in the high half, minor in the low one. Equal majors work together: a newer minor has only
 * added to the tails of tables. */
#define VL_ABI_MAJOR 1u
#define VL_ABI_MINOR 0u
#define VL_ABI_VERSION ((VL_ABI_MAJOR << 16) | VL_ABI_MINOR)
#define VL_ABI_MAJOR_OF(version) ((uint32_t)(version) >> 16)
#define VL_ABI_MINOR_OF(version) ((uint32_t)(version)&0xffffu)

#if defined(__GNUC__)
#define VL_EXPORT __attribute__((visibility("default")))
#define VL_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define VL_EXPORT
#define VL_PRINTF(fmt, args)
#endif

/* True if *p, by its own struct_size, reaches to the end of `member`. */
#define VL_HAS(p, member)                                                                          \
    ((size_t)(p)->struct_size >= (size_t)((const char *)(&(p)->member + 1) - (const char *)(p)))

typedef int32_t vl_status;
enum {
    VL_OK = 0,
    VL_E_INVALID = 1,     /* an argument, a request, a config value is wrong */
    VL_E_FORMAT = 2,      /* a file is not what it says, or is damaged */
    VL_E_UNSUPPORTED = 3, /* well formed, and nothing here can do it */
    VL_E_NOT_FOUND = 4,   /* no such file, tensor, plugin, model */
    VL_E_IO = 5,          /* the operating system said no */
    VL_E_NOMEM = 6,       /* host or device memory, pages or slots are not to be had */
    VL_E_RANGE = 7,       /* the caller's buffer is too short, or a number is out of range */
    VL_E_DEVICE = 8,      /* the device failed; the model is unhealthy from now on */
    VL_E_CANCELLED = 9,   /* a callback or the caller asked to stop */
    VL_E_TIMEOUT = 10,    /* nothing within the time given; the call may be repeated */
    VL_E_BUSY = 11,       /* a queue is full; later may succeed */
    VL_E_ABI = 12,        /* versions or table sizes do not fit */
    VL_E_STATE = 13,      /* the object cannot do this now */
    VL_E_INTERNAL = 14    /* our own bug */
};

/* Fixed text in the caller's memory; nothing to free. Every fallible call takes one, and it may be
 * NULL. `text` says what, where and the values: "layers.3.q_proj: shape [4096,2048], want
 * [4096,4096]". It is UTF-8, ends with NUL and has no newline. */
typedef struct vl_error {
    int32_t status; /* vl_status */
    char text[508];
} vl_error;

/* Bytes with a length; not NUL-terminated. A NULL ptr goes with len 0. */
typedef struct vl_bytes {
    const char *ptr;
    size_t len;
} vl_bytes;

/* Element types of tensors, as files name them. */
enum {
    VL_DTYPE_NONE = 0,
    VL_DTYPE_F32 = 1,
    VL_DTYPE_F16 = 2,
    VL_DTYPE_BF16 = 3,
    VL_DTYPE_F64 = 4,
    VL_DTYPE_I8 = 5,
    VL_DTYPE_U8 = 6,
    VL_DTYPE_I16 = 7,
    VL_DTYPE_U16 = 8,
    VL_DTYPE_I32 = 9,
    VL_DTYPE_U32 = 10,
    VL_DTYPE_I64 = 11,
    VL_DTYPE_U64 = 12,
    VL_DTYPE_BOOL = 13,
    VL_DTYPE_F8_E4M3 = 14,
    VL_DTYPE_F8_E5M2 = 15
};

/* Log levels, for vl_host.log. */
enum { VL_LOG_ERROR = 0, VL_LOG_WARN = 1, VL_LOG_INFO = 2, VL_LOG_DEBUG = 3 };

#ifdef __cplusplus
}
#endif
#endif
