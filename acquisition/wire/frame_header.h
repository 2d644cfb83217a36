/* The header of a frame as it lies in memory: acquisition.wire.frame.HEADER, little endian. */

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

#define FRAME_MAGIC "SPLS"
enum { FRAME_VERSION = 1, KIND_SAMPLES = 1, FLAG_CODES = 1, HINT_SHEDS = 1 };
enum { CRC_FROM = 8 }; /* the checksum is of what begins here */
