/* The state of an outbox and of one of its send windows, read from their attributes, changed, and written back. */

#define NAMES(N) \
    N(_seconds) N(_clock) N(_index) N(_recent) N(_ring) N(capacity) N(limit) N(_head) N(_serial) N(bytes) N(first) \
    N(end) N(_mask) N(oldest_at) N(oldest_place) N(_buffer) N(resource_set) N(epoch) N(last) N(made) N(floor) \
    N(floor_made) N(confirmed) N(recovered) N(give_up) N(_drop) N(_double) N(_frames) N(_bytes) N(add) N(_data) \
    N(_file) N(_salt) N(path) N(_outbox) N(_overload) N(state) N(is_active) N(share) N(newest) N(_old) N(catch_up) \
    N(speed) N(windows) N(next) N(highest) N(_restamp) N(expected) N(append) \
    N(popleft) N(acknowledge) N(_refused)

#define DECLARE(name) static PyObject *s_##name;
NAMES(DECLARE)
#undef DECLARE

static int make_names(void)
{
#define MAKE(name) \
    if (!s_##name && !(s_##name = PyUnicode_InternFromString(#name))) \
        return 0;
    NAMES(MAKE)
#undef MAKE
    return 1;
}

/* acquisition.outbox.index._RECORD */
typedef struct __attribute__((packed)) {
    int64_t offset;
    uint64_t serial;
    double at;
    uint64_t sequence, made;
    uint32_t samples, size, set;
    uint8_t forgotten, shed, unused[2];
} Record;

_Static_assert(sizeof(Record) == 56, "an entry of the index");

typedef struct {
    PyObject *outbox, *window, *index, *recent, *ring, *buffer; /* the first two are borrowed */
    double seconds, oldest_at;
    int64_t capacity, limit, head, serial, bytes, first, end, mask;
    int64_t set, epoch, last, made, floor, floor_made, confirmed, recovered;
    int has_oldest, dropped;
    int64_t oldest_offset, oldest_serial;
} Lane;

static int get_number(PyObject *from, PyObject *name, int64_t *found)
{
    PyObject *value = PyObject_GetAttr(from, name);
    if (!value)
        return 0;
    *found = PyLong_AsLongLong(value);
    Py_DECREF(value);
    return *found != -1 || !PyErr_Occurred();
}

static int get_double(PyObject *from, PyObject *name, double *found)
{
    PyObject *value = PyObject_GetAttr(from, name);
    if (!value)
        return 0;
    *found = PyFloat_AsDouble(value);
    Py_DECREF(value);
    return *found != -1.0 || !PyErr_Occurred();
}

static int get_truth(PyObject *from, PyObject *name, int *found)
{
    PyObject *value = PyObject_GetAttr(from, name);
    if (!value)
        return 0;
    *found = PyObject_IsTrue(value);
    Py_DECREF(value);
    return *found >= 0;
}

/* Takes the reference to ``value``. */
static int set_object(PyObject *to, PyObject *name, PyObject *value)
{
    int done = value && PyObject_SetAttr(to, name, value) == 0;
    Py_XDECREF(value);
    return done;
}

static int set_number(PyObject *to, PyObject *name, int64_t value)
{
    return set_object(to, name, PyLong_FromLongLong(value));
}

static int call(PyObject *object, PyObject *name)
{
    PyObject *answer = PyObject_CallMethodObjArgs(object, name, NULL);
    Py_XDECREF(answer);
    return answer != NULL;
}

static int read_oldest(Lane *lane)
{
    PyObject *place = PyObject_GetAttr(lane->index, s_oldest_place);
    int done = 0;
    if (!place)
        return 0;
    lane->has_oldest = place != Py_None;
    if (!lane->has_oldest) {
        done = 1;
    } else if (PyTuple_Check(place) && PyTuple_Size(place) == 2) {
        lane->oldest_offset = PyLong_AsLongLong(PyTuple_GetItem(place, 0));
        lane->oldest_serial = PyLong_AsLongLong(PyTuple_GetItem(place, 1));
        done = !PyErr_Occurred();
    }
    Py_DECREF(place);
    return done;
}

static int read_window(Lane *lane)
{
    PyObject *window = lane->window;
    return get_number(window, s_last, &lane->last) && get_number(window, s_made, &lane->made)
           && get_number(window, s_floor, &lane->floor);
}

static int read_index(Lane *lane)
{
    PyObject *index = lane->index;
    Py_CLEAR(lane->buffer);
    lane->buffer = PyObject_GetAttr(index, s__buffer);
    return lane->buffer && PyByteArray_Check(lane->buffer) && get_number(index, s_first, &lane->first)
           && get_number(index, s_end, &lane->end) && get_number(index, s__mask, &lane->mask)
           && get_double(index, s_oldest_at, &lane->oldest_at) && read_oldest(lane);
}

static int read_lane(Lane *lane)
{
    PyObject *outbox = lane->outbox, *window = lane->window;
    lane->index = PyObject_GetAttr(outbox, s__index);
    lane->recent = PyObject_GetAttr(outbox, s__recent);
    lane->ring = PyObject_GetAttr(outbox, s__ring);
    return lane->index && lane->recent && lane->ring && get_double(outbox, s__seconds, &lane->seconds)
           && get_number(outbox, s_capacity, &lane->capacity) && get_number(outbox, s_limit, &lane->limit)
           && get_number(outbox, s__head, &lane->head) && get_number(outbox, s__serial, &lane->serial)
           && get_number(outbox, s_bytes, &lane->bytes) && get_number(window, s_resource_set, &lane->set)
           && get_number(window, s_epoch, &lane->epoch) && get_number(window, s_confirmed, &lane->confirmed)
           && get_number(window, s_recovered, &lane->recovered) && read_window(lane) && read_index(lane);
}

static int write_back(Lane *lane)
{
    PyObject *outbox = lane->outbox, *index = lane->index, *window = lane->window;
    PyObject *place = lane->has_oldest ? Py_BuildValue("LL", (long long)lane->oldest_offset, (long long)lane->oldest_serial)
                                       : Py_NewRef(Py_None);
    return set_object(index, s_oldest_place, place) && set_number(outbox, s_limit, lane->limit)
           && set_number(outbox, s__head, lane->head) && set_number(outbox, s__serial, lane->serial)
           && set_number(outbox, s_bytes, lane->bytes) && set_number(index, s_first, lane->first)
           && set_number(index, s_end, lane->end)
           && set_object(index, s_oldest_at, PyFloat_FromDouble(lane->oldest_at))
           && set_number(window, s_last, lane->last) && set_number(window, s_made, lane->made)
           && set_number(window, s_floor, lane->floor)
           && (!lane->dropped || set_number(window, s_floor_made, lane->floor_made));
}

static void release(Lane *lane)
{
    Py_CLEAR(lane->index);
    Py_CLEAR(lane->recent);
    Py_CLEAR(lane->ring);
    Py_CLEAR(lane->buffer);
}

/* The place of entry ``number`` in the buffer of an index. */
static char *entry_at(PyObject *buffer, int64_t mask, int64_t number)
{
    size_t at = (size_t)(number & mask) * sizeof(Record);
    return at + sizeof(Record) <= (size_t)PyByteArray_Size(buffer) ? PyByteArray_AsString(buffer) + at : NULL;
}

static int read_entry(PyObject *buffer, int64_t mask, int64_t number, Record *record)
{
    const char *at = entry_at(buffer, mask, number);
    if (at)
        memcpy(record, at, sizeof *record);
    return at != NULL;
}

static int64_t space(int64_t size)
{
    return (40 + size + 7) & ~(int64_t)7; /* acquisition.outbox.ring.space */
}
