/* Checks that a frame is sound and directly follows in its resource set, as nearly all do.

Only these are judged and counted here. acquisition.wire.frame.decode and filters.worker.states.sequence.Track are the
definition, and handle every other frame (tests/filters/worker/test_step_next.py). */

/* filters.worker.states.sequence.Track: a position record (acquisition.wire.position). */
typedef struct {
    uint8_t version, flags;
    uint16_t gaps;
    float interval;
    uint64_t epoch, sequence;
    int64_t tick;
    double wall;
    uint64_t before, applied, invalid, lost, frames, lost_frames, duplicates, refused, made;
    int64_t lost_tick;
} Track;

static size_t frame_size(const FrameHeader *head)
{
    size_t cells = (size_t)head->entities * head->metrics;
    return sizeof *head + 8 * (size_t)head->entities + 4 * cells + (head->flags & FLAG_CODES ? cells : 0);
}

static int is_sound(const FrameHeader *head, const uint8_t *data, size_t size)
{
    uint64_t cells = (uint64_t)head->entities * head->metrics;
    return !memcmp(head->magic, FRAME_MAGIC, 4) && head->version == FRAME_VERSION && head->kind == KIND_SAMPLES
           && !(head->flags & ~FLAG_CODES) && cells && cells <= MOST_CELLS && frame_size(head) == size
           && head->interval > 0.0f && isfinite(head->interval) && isfinite(head->wall) && isfinite(head->monotonic)
           && head->floor >= 1 && head->sequence >= head->floor && head->sequence < MOST_COUNTED
           && head->made < MOST_COUNTED && head->crc == crc32_of(data + CRC_FROM, size - CRC_FROM);
}

/* Track.apply */
static void count_frame(Track *track, const FrameHeader *head)
{
    uint64_t samples = (uint64_t)head->entities * head->metrics;
    track->sequence = head->sequence;
    track->frames++;
    track->flags = (uint8_t)((track->flags & ~(ENDED | SHEDS)) | (head->hints & HINT_SHEDS ? SHEDS : 0));
    track->tick = head->tick;
    track->wall = head->wall;
    track->interval = head->interval;
    track->applied += samples;
    track->made = head->made + samples;
}

/* If ``data`` is a sound frame of samples and the next one of ``track``, count it and return its number of samples;
   otherwise return 0 without counting. */
static size_t next_frame(const uint8_t *data, size_t size, Track *track)
{
    FrameHeader head;
    if (size < sizeof head)
        return 0;
    memcpy(&head, data, sizeof head);
    if (track->flags & CONTESTED || head.epoch != track->epoch || head.sequence != track->sequence + 1
        || !is_sound(&head, data, size))
        return 0;
    count_frame(track, &head);
    return (size_t)head.entities * head.metrics;
}
