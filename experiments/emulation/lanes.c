/* Frames of lean hosts that are due, made and sent in one call from experiments/emulation/lanes.py, as defined by
   lean_host.py and acquisition/wire/frame.py. Only the kernel copies: ids, values and codes stay in place. Cases that
   are not plain (rows change, positions are requested, a socket is full) are left to Python. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "../../acquisition/wire/crc32.h"
#include "../../acquisition/wire/frame_header.h"

/* lanes.Lane */
typedef struct {
    uint64_t host, epoch, last, made; /* the newest number, and the samples up to it */
    uint64_t frames;                  /* frames of samples so far */
    double due;                       /* time at which Python is to serve the host, CLOCK_MONOTONIC */
    const uint8_t *ids, *head;        /* of the rows; the command up to the length of the frame */
    int32_t descriptor;
    uint32_t head_size, rows, start, churn_phase, plain;
} Lane;

/* lanes.Common */
typedef struct {
    const uint8_t *values, *codes;
    const int32_t *invalid_before; /* row -> number of invalid samples in earlier rows */
    double interval;
    uint32_t strip_rows, stride, metrics, schema, set, churn_period, jitter_steps, most_rows;
} Common;

/* lanes.NativeTurn */
typedef struct {
    double phase;
    uint32_t lane, slot, slots;
} Turn;

/* lanes.Done */
typedef struct {
    uint64_t frames, samples, missed;
    double lag;         /* greatest delay of a frame, seconds */
    uint32_t turn;      /* the next one */
    uint32_t rest_size; /* bytes of the last frame not taken by the socket */
} Done;

enum { PIECES = 7, LENGTH_DIGITS = 24 };
enum { DONE, PYTHON, REST }; /* lanes.Outcome */
enum { PLAIN = 1, LOGGED = 2 };

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* Seconds from the end of the next sampling to its due time: SampledHost.early. */
static double early(const Lane *lane, const Common *common)
{
    return (double)((lane->start + 97 * lane->frames) % common->jitter_steps) * 1e-6;
}

static int is_plain(const Lane *lane, const Common *common, double at)
{
    int changes = common->churn_period && lane->frames
                  && (lane->frames + lane->churn_phase) % common->churn_period == 0;
    return lane->plain & PLAIN && at < lane->due && lane->rows <= common->most_rows && !changes;
}

static uint32_t checksum(const struct iovec *pieces, int count)
{
    uint32_t crc = ~0u;
    for (int i = 0; i < count; i++) {
        const uint8_t *data = pieces[i].iov_base;
        size_t size = pieces[i].iov_len, skipped = i ? 0 : CRC_FROM;
        crc = crc32_go_on(crc, data + skipped, size - skipped);
    }
    return ~crc;
}

/* Keep the part of ``pieces`` not taken by the socket. */
static void keep_rest(const struct iovec *pieces, size_t taken, uint8_t *rest, Done *done)
{
    done->rest_size = 0;
    for (int i = 0; i < PIECES; i++) {
        size_t skipped = taken < pieces[i].iov_len ? taken : pieces[i].iov_len;
        memcpy(rest + done->rest_size, (const uint8_t *)pieces[i].iov_base + skipped, pieces[i].iov_len - skipped);
        done->rest_size += (uint32_t)(pieces[i].iov_len - skipped);
        taken -= skipped;
    }
}

/* Make the next frame of a host and send it. */
static int send_frame(Lane *lane, const Common *common, int64_t tick, double wall, double monotonic, Done *done,
                      uint8_t *rest)
{
    uint32_t row = (uint32_t)((lane->start + lane->frames * common->stride) % common->strip_rows);
    size_t cells = (size_t)lane->rows * common->metrics, first = (size_t)row * common->metrics;
    int invalid = common->invalid_before[row] != common->invalid_before[row + lane->rows];
    FrameHeader header = {
        FRAME_MAGIC, 0, FRAME_VERSION, KIND_SAMPLES, invalid ? FLAG_CODES : 0, common->schema, lane->host, common->set,
        (uint16_t)common->metrics, 0, lane->rows, (float)common->interval, lane->epoch, lane->last + 1, lane->last + 1,
        lane->made, tick, wall, monotonic,
    };
    char length[LENGTH_DIGITS];
    struct iovec pieces[PIECES] = {
        {(void *)lane->head, lane->head_size}, {length, 0}, {&header, sizeof header}, {(void *)lane->ids, 8 * lane->rows},
        {(void *)(common->values + 4 * first), 4 * cells}, {(void *)(common->codes + first), invalid ? cells : 0},
        {(void *)"\r\n", 2},
    };
    size_t frame = sizeof header + pieces[3].iov_len + pieces[4].iov_len + pieces[5].iov_len;
    pieces[1].iov_len = (size_t)snprintf(length, sizeof length, "%zu\r\n", frame);
    header.crc = checksum(pieces + 2, 4);
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = PIECES};
    ssize_t taken = sendmsg(lane->descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    lane->last++;
    lane->made += cells;
    lane->frames++;
    done->frames++;
    done->samples += cells;
    if (taken == (ssize_t)(pieces[0].iov_len + pieces[1].iov_len + frame + 2))
        return DONE;
    keep_rest(pieces, taken < 0 ? 0 : (size_t)taken, rest, done); /* an error recurs when Python sends this */
    lane->plain &= ~(uint32_t)PLAIN;
    return REST;
}

/* Sizes of Lane, Common, Turn and Done, which lanes.load compares with its own. */
void sizes(uint32_t *found)
{
    found[0] = sizeof(Lane);
    found[1] = sizeof(Common);
    found[2] = sizeof(Turn);
    found[3] = sizeof(Done);
}

void prepare(void)
{
    make_crc_table();
    folds = can_fold();
}

/* The next frame of one host. */
int one(Lane *lane, const Common *common, int64_t tick, double wall, double monotonic, Done *done, uint8_t *rest)
{
    *done = (Done){0};
    return is_plain(lane, common, now()) ? send_frame(lane, common, tick, wall, monotonic, done, rest) : PYTHON;
}

/* Due turns from ``from`` on, ``most`` at most. The interval ``tick`` begins at ``base`` of the wall clock, which is
   ``ahead`` of the monotonic one. PYTHON: the turn ``done->turn`` is due and not plain; REST: it is done, except for
   bytes not taken by its socket. */
int run(Lane *lanes, const Common *common, const Turn *turns, uint32_t from, uint32_t end, uint32_t most, int64_t tick,
        double base, double ahead, Done *done, uint8_t *rest)
{
    *done = (Done){.turn = from};
    for (; done->turn < end && done->frames < most; done->turn++) {
        const Turn *turn = turns + done->turn;
        Lane *lane = lanes + turn->lane;
        double wall = base + turn->phase, due = wall - ahead, at = now(), late = at - due, before;
        if (late < 0)
            break;
        if (done->lag < late)
            done->lag = late;
        if (late > common->interval) {
            done->missed++;
            continue;
        }
        if (lane->plain & LOGGED || !is_plain(lane, common, at))
            return PYTHON;
        before = early(lane, common);
        if (send_frame(lane, common, tick * turn->slots + turn->slot, wall - before, due - before, done, rest) == REST)
            return REST;
    }
    return DONE;
}
