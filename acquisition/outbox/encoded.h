/* A frame of samples is numbered, encoded and kept: Writer.offer. */

/* acquisition.outbox.ring: _RECORD_HEAD and _RECORD_BODY */
typedef struct __attribute__((packed)) {
    char magic[4];
    uint32_t crc;
    uint64_t serial, oldest_serial;
    double at;
    uint32_t size, frame_crc;
} RingRecord;

_Static_assert(sizeof(RingRecord) == 40, "a record of a ring");

enum { PARTS = 3, AREA = 4096, MOST_RECENT = 1 << 17 };

/* What is offered: the numbers of its header, and ids, values and codes. */
typedef struct {
    FrameHeader header;
    const char *part[PARTS];
    Py_ssize_t length[PARTS];
    uint64_t cells;
    int64_t size;
} Offered;

/* 1: it fits together; 0: it does not, or is of other types, and the definition says so. */
static int read_offered(PyObject *host, PyObject *samples, Offered *offered)
{
    FrameHeader *header = &offered->header;
    long long set, schema, entities, metrics, tick;
    unsigned long long owner;
    double interval, wall, monotonic;
    PyObject *part[PARTS];
    if (!PyTuple_Check(samples) || !PyArg_ParseTuple(samples, "LLLLdLddSSS", &set, &schema, &entities, &metrics, &interval,
                                                     &tick, &wall, &monotonic, &part[0], &part[1], &part[2])) {
        PyErr_Clear();
        return 0;
    }
    owner = PyLong_AsUnsignedLongLong(host);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    for (int i = 0; i < PARTS; i++) {
        offered->part[i] = PyBytes_AsString(part[i]);
        offered->length[i] = PyBytes_Size(part[i]);
    }
    if (set < 0 || set > UINT32_MAX || schema < 0 || schema > UINT32_MAX || entities < 0 || entities > UINT32_MAX
        || metrics < 0 || metrics > UINT16_MAX)
        return 0;
    offered->cells = (uint64_t)(entities * metrics);
    if (offered->length[0] != entities * 8 || (uint64_t)offered->length[1] != offered->cells * 4
        || (offered->length[2] && (uint64_t)offered->length[2] != offered->cells) || offered->cells > UINT32_MAX)
        return 0;
    *header = (FrameHeader){
        FRAME_MAGIC, 0, FRAME_VERSION, KIND_SAMPLES, offered->length[2] ? FLAG_CODES : 0, (uint32_t)schema, owner,
        (uint32_t)set, (uint16_t)metrics, 0, (uint32_t)entities, (float)interval, 0, 0, 0, 0, tick, wall, monotonic,
    };
    offered->size = (int64_t)sizeof *header + offered->length[0] + offered->length[1] + offered->length[2];
    return isfinite(header->interval) || !isfinite(interval);
}

/* The bytes of the frame with the next number of its window. */
static PyObject *encode(Offered *offered, const Lane *lane)
{
    FrameHeader *header = &offered->header;
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)offered->size);
    if (!data)
        return NULL;
    char *start = PyBytes_AsString(data), *at = start + sizeof *header;
    header->epoch = (uint64_t)lane->epoch;
    header->sequence = (uint64_t)lane->last + 1;
    header->floor = (uint64_t)lane->floor;
    header->made = (uint64_t)lane->made;
    memcpy(start, header, sizeof *header);
    for (int i = 0; i < PARTS; at += offered->length[i], i++)
        memcpy(at, offered->part[i], (size_t)offered->length[i]);
    header->crc = crc32_of((const uint8_t *)start + 8, (size_t)offered->size - 8);
    memcpy(start + 4, &header->crc, 4);
    return data;
}

/* zlib.crc32(data, start) */
static uint32_t crc32_from(uint32_t start, const void *data, size_t size)
{
    return ~crc_by_table(~start, data, size);
}

/* FileRing.write; 0 where the disk does not take it, or with an exception. */
static int write_file(const Lane *lane, const Offered *offered, PyObject *data, double now)
{
    int64_t file, salt;
    if (!get_number(lane->ring, s__file, &file) || !get_number(lane->ring, s__salt, &salt))
        return 0;
    RingRecord record = {
        {'S', 'P', 'L', 'R'}, 0, (uint64_t)lane->serial,
        (uint64_t)(lane->has_oldest ? lane->oldest_serial : lane->serial), now, (uint32_t)offered->size,
        offered->header.crc,
    };
    record.crc = crc32_from((uint32_t)salt, (char *)&record + 8, sizeof record - 8);
    struct iovec pieces[2] = {{&record, sizeof record}, {PyBytes_AsString(data), (size_t)offered->size}};
    ssize_t written;
    Py_BEGIN_ALLOW_THREADS
    written = pwritev((int)file, pieces, 2, AREA + lane->head);
    Py_END_ALLOW_THREADS
    return written == (ssize_t)sizeof record + offered->size;
}

static int write_memory(const Lane *lane, PyObject *memory, PyObject *data)
{
    PyObject *key = PyLong_FromLongLong(lane->head);
    int done = key && PyDict_SetItem(memory, key, data) == 0;
    Py_XDECREF(key);
    return done;
}

static int keep(const Lane *lane, const Offered *offered, PyObject *data, double now)
{
    PyObject *memory = memory_of(lane->ring);
    if (!memory)
        return !PyErr_Occurred() && write_file(lane, offered, data, now);
    int done = write_memory(lane, memory, data);
    Py_DECREF(memory);
    return done;
}

/* RecentFrames.add */
static int add_recent(PyObject *recent, int64_t number, PyObject *data)
{
    PyObject *frames = PyObject_GetAttr(recent, s__frames), *key = PyLong_FromLongLong(number), *answer = NULL;
    int64_t bytes;
    int done = 0;
    if (frames && key && get_number(recent, s__bytes, &bytes)) {
        if (bytes + PyBytes_Size(data) > MOST_RECENT) {
            answer = PyObject_CallMethodObjArgs(recent, s_add, key, data, NULL);
            done = answer != NULL;
        } else {
            done = PyDict_SetItem(frames, key, data) == 0 && set_number(recent, s__bytes, bytes + PyBytes_Size(data));
        }
    }
    Py_XDECREF(frames);
    Py_XDECREF(key);
    Py_XDECREF(answer);
    return done;
}

/* Index.add; the ring has the frame. */
static int note(Lane *lane, const Offered *offered, double now)
{
    Record record = {
        lane->head, (uint64_t)lane->serial, now, (uint64_t)lane->last, (uint64_t)lane->made, (uint32_t)offered->cells,
        (uint32_t)offered->size, (uint32_t)lane->set, 0, 0, {0, 0},
    };
    if (lane->end - lane->first > lane->mask) {
        if (!call(lane->index, s__double) || !get_number(lane->index, s__mask, &lane->mask))
            return 0;
        Py_CLEAR(lane->buffer);
        if (!(lane->buffer = PyObject_GetAttr(lane->index, s__buffer)))
            return 0;
    }
    char *at = entry_at(lane->buffer, lane->mask, lane->end);
    if (!at)
        return 0;
    memcpy(at, &record, sizeof record);
    if (lane->end == lane->first)
        lane->oldest_at = now;
    if (!lane->has_oldest) {
        lane->has_oldest = 1;
        lane->oldest_offset = lane->head;
        lane->oldest_serial = lane->serial;
    }
    lane->end++;
    return 1;
}

static int append(Lane *lane, const Offered *offered, PyObject *data, double now)
{
    int64_t number = lane->end, need = space(offered->size);
    lane->last++;
    lane->made += (int64_t)offered->cells;
    if (!note(lane, offered, now) || !add_recent(lane->recent, number, data))
        return 0;
    lane->serial++;
    lane->head += need;
    lane->bytes += need;
    return 1;
}

PyDoc_STRVAR(offer_doc,
"offer(outbox, window, host, samples) -> sequence\n\n"
"Number a frame.Samples of the window's resource set, encode and keep it; 0 where that is left to Writer.offer: then\n"
"nothing has happened but that room was made.");

static PyObject *offer(PyObject *module, PyObject *arguments)
{
    Lane lane = {0};
    Offered offered;
    PyObject *host, *samples, *clock, *moment, *data = NULL, *answer = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOO", &lane.outbox, &lane.window, &host, &samples))
        return NULL;
    if (!read_offered(host, samples, &offered))
        return PyLong_FromLong(0);
    if (!(clock = PyObject_GetAttr(lane.outbox, s__clock)))
        return NULL;
    moment = PyObject_CallObject(clock, NULL);
    Py_DECREF(clock);
    double now = moment ? PyFloat_AsDouble(moment) : -1.0;
    Py_XDECREF(moment);
    if (PyErr_Occurred())
        goto end;
    if (!read_lane(&lane)) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) { /* an epoch that another program made up */
            PyErr_Clear();
            answer = PyLong_FromLong(0);
        }
        goto end;
    }
    if (space(offered.size) > lane.capacity || offered.header.resource_set != lane.set) {
        answer = PyLong_FromLong(0);
        goto end;
    }
    if (!make_room(&lane, space(offered.size), now) || !(data = encode(&offered, &lane)))
        goto end;
    int kept = keep(&lane, &offered, data, now);
    if (PyErr_Occurred() || (kept && !append(&lane, &offered, data, now)) || !write_back(&lane))
        goto end;
    answer = PyLong_FromLongLong(kept ? lane.last : 0);
end:
    Py_XDECREF(data);
    release(&lane);
    return answer;
}
