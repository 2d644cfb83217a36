/* Room for a frame: what is too old or in the way is dropped, as acquisition.outbox.store.Outbox.make_room does. */

enum { SLACK = 1 << 16 };

/* Take a frame out of what is kept until it was sent: acquisition.outbox.recent_frames.RecentFrames.take. The frame,
   NULL with an exception or, where there is none, without. */
static PyObject *take_recent(PyObject *recent, int64_t number)
{
    PyObject *frames = PyObject_GetAttr(recent, s__frames), *key = NULL, *data = NULL;
    int64_t bytes;
    if (frames && PyDict_Size(frames) > 0 && (key = PyLong_FromLongLong(number))
        && (data = PyDict_GetItemWithError(frames, key))) {
        Py_INCREF(data);
        if (PyDict_DelItem(frames, key) < 0 || !get_number(recent, s__bytes, &bytes)
            || !set_number(recent, s__bytes, bytes - PyBytes_Size(data)))
            Py_CLEAR(data);
    }
    Py_XDECREF(key);
    Py_XDECREF(frames);
    return data;
}

/* The memory of a ring, NULL without an exception for one that is a file. */
static PyObject *memory_of(PyObject *ring)
{
    PyObject *path = PyObject_GetAttr(ring, s_path);
    int in_memory = path == Py_None;
    Py_XDECREF(path);
    return in_memory ? PyObject_GetAttr(ring, s__data) : NULL;
}

static int free_place(Lane *lane, int64_t offset)
{
    PyObject *memory = memory_of(lane->ring), *key;
    if (!memory)
        return !PyErr_Occurred();
    key = PyLong_FromLongLong(offset);
    if (!key || (PyDict_DelItem(memory, key) < 0 && PyErr_ExceptionMatches(PyExc_KeyError)))
        PyErr_Clear();
    Py_XDECREF(key);
    Py_DECREF(memory);
    return !PyErr_Occurred();
}

/* SendWindow.give_up */
static int give_up(Lane *lane, const Record *gone)
{
    PyObject *sequence = PyLong_FromUnsignedLongLong(gone->sequence), *samples = PyLong_FromUnsignedLong(gone->samples);
    PyObject *answer = NULL;
    if (sequence && samples)
        answer = PyObject_CallMethodObjArgs(lane->window, s_give_up, sequence, samples, NULL);
    Py_XDECREF(sequence);
    Py_XDECREF(samples);
    Py_XDECREF(answer);
    return answer != NULL;
}

/* Outbox._drop. What is not plain is left to it: another set's frame, a window's last one, one that is not in the ring. */
static int drop(Lane *lane)
{
    Record gone, next;
    PyObject *data;
    if (lane->end - lane->first < 2 || !read_entry(lane->buffer, lane->mask, lane->first, &gone)
        || !read_entry(lane->buffer, lane->mask, lane->first + 1, &next) || gone.offset < 0 || next.offset < 0
        || gone.forgotten || gone.shed || gone.set != lane->set || (int64_t)gone.sequence >= lane->last)
        return write_back(lane) && call(lane->outbox, s__drop) && read_index(lane) && read_window(lane)
               && get_number(lane->outbox, s_bytes, &lane->bytes)
               && get_number(lane->window, s_floor_made, &lane->floor_made);
    data = take_recent(lane->recent, lane->first);
    Py_XDECREF(data);
    if (PyErr_Occurred() || !free_place(lane, gone.offset))
        return 0;
    lane->bytes -= space(gone.size);
    lane->first++;
    lane->oldest_at = next.at;
    lane->oldest_offset = next.offset;
    lane->oldest_serial = (int64_t)next.serial;
    lane->floor = (int64_t)gone.sequence + 1;
    lane->floor_made = (int64_t)gone.made;
    lane->dropped = 1;
    if ((int64_t)gone.sequence > (lane->confirmed ? lane->confirmed : lane->recovered))
        return give_up(lane, &gone);
    return 1;
}

static int drop_between(Lane *lane, int64_t low, int64_t high)
{
    while (lane->has_oldest && low <= lane->oldest_offset && lane->oldest_offset < high)
        if (!drop(lane))
            return 0;
    return 1;
}

static void begin_lap(Lane *lane)
{
    lane->head = 0;
    lane->limit = lane->capacity;
}

/* Outbox._place */
static int place(Lane *lane, int64_t need)
{
    int64_t oldest = lane->oldest_offset, head = lane->head;
    if (!lane->has_oldest) {
        begin_lap(lane);
    } else if (head + need > lane->limit) {
        if (!drop_between(lane, head, lane->capacity) || !drop_between(lane, 0, need))
            return 0;
        begin_lap(lane);
    } else if (head > oldest && oldest >= head - oldest + need + SLACK) {
        begin_lap(lane);
    } else if (oldest >= head) {
        return drop_between(lane, head, head + need);
    }
    return 1;
}

static int make_room(Lane *lane, int64_t need, double now)
{
    while (lane->oldest_at < now - lane->seconds)
        if (!drop(lane))
            return 0;
    return place(lane, need);
}
