/* The header of a frame in memory: acquisition.wire.frame.HEADER, little endian. */

typedef struct {
    char magic[4];
    uint32_t crc;
    uint8_t version, kind;
    uint16_t flags;
    uint32_t schema;
    uint64_t host;
    uint32_t resource_set;
    uint16_t metrics, hints;
    uint32_t entities;
    float interval;
    uint64_t epoch, sequence, floor, made;
    int64_t tick;
    double wall, monotonic;
} FrameHeader;

_Static_assert(sizeof(FrameHeader) == 96, "the header of a frame");

#include "little_endian.h"

#define FRAME_MAGIC "SPLS"
enum { FRAME_VERSION = 1, KIND_SAMPLES = 1, FLAG_CODES = 1, HINT_SHEDS = 1 };
enum { CRC_FROM = 8 }; /* first byte covered by the checksum */

/* For modules with agreed.h. */
#define AGREE_FRAME_HEADER \
    AGREE_BYTES(FRAME_MAGIC) AGREE_NUMBER(FRAME_VERSION) AGREE_NUMBER(KIND_SAMPLES) AGREE_NUMBER(FLAG_CODES) \
    AGREE_NUMBER(HINT_SHEDS) AGREE_NUMBER(CRC_FROM) AGREE_SIZE(FrameHeader) AGREE_OFFSET(FrameHeader, magic) \
    AGREE_OFFSET(FrameHeader, crc) AGREE_OFFSET(FrameHeader, version) AGREE_OFFSET(FrameHeader, kind) \
    AGREE_OFFSET(FrameHeader, flags) AGREE_OFFSET(FrameHeader, schema) AGREE_OFFSET(FrameHeader, host) \
    AGREE_OFFSET(FrameHeader, resource_set) AGREE_OFFSET(FrameHeader, metrics) AGREE_OFFSET(FrameHeader, hints) \
    AGREE_OFFSET(FrameHeader, entities) AGREE_OFFSET(FrameHeader, interval) AGREE_OFFSET(FrameHeader, epoch) \
    AGREE_OFFSET(FrameHeader, sequence) AGREE_OFFSET(FrameHeader, floor) AGREE_OFFSET(FrameHeader, made) \
    AGREE_OFFSET(FrameHeader, tick) AGREE_OFFSET(FrameHeader, wall) AGREE_OFFSET(FrameHeader, monotonic)
