/* Reads many processes from /proc in one call.

   A tick of a probe reads three files of a hundred processes. The kernel's part of that is 15 microseconds per process;
   in Python as much again was spent on splitting the texts (docs/decisions/0011). Reading and evaluation
   are in _process_reading.h; probes.figures.process_files stays the definition, tested equal over captured,
   changed and hostile texts (tests/probes/figures/test_process_step.py).

   The state of a process is a Record in the caller's bytes; nothing is kept here. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#define _GNU_SOURCE
#include <Python.h>

#include "../../acquisition/wire/agreed.h"
#include "_text.h"
#include "_process_reading.h"
#include "_host_reading.h"

PyDoc_STRVAR(open_process_doc,
"open_process(proc, pid, start, wanted, kept, delays) -> record\n\n"
"Open the files of a process below ``proc`` (bytes). ``wanted`` and ``kept`` are sets of bits, one for each of FILES.\n"
"See ProcessFiles. Raises OSError when the process is gone.");

static PyObject *open_process(PyObject *module, PyObject *arguments)
{
    static const int columns[FILES][COUNT(STAT_COUNTERS)] = {
        {WIDTH}, {VOLUNTARY, INVOLUNTARY}, {READ, WRITTEN, CANCELLED}, {WAIT}};
    static const size_t counts[FILES] = {0, 2, 3, 1};
    const char *proc;
    unsigned long long start;
    int wanted, kept, delays;
    double values[WIDTH];
    uint8_t codes[WIDTH], state;
    Record record;
    (void)module;
    memset(&record, 0, sizeof record);
    if (!PyArg_ParseTuple(arguments, "yiKiip", &proc, &record.pid, &start, &wanted, &kept, &delays))
        return NULL;
    record.start = start;
    record.steady[DELAY] = delays ? VALID : MISSING;
    record.thread_wanted = wanted >> SCHEDSTAT & 1;
    for (int file = 0; file < FILES; file++) {
        record.files[file] = CLOSED;
        if ((wanted >> file & 1) && (kept >> file & 1) && (record.files[file] = open_file(proc, record.pid, file)) < 0 &&
            file == STAT)
            return PyErr_SetFromErrno(PyExc_OSError);
        if (!(wanted >> file & 1) || ((kept >> file & 1) && record.files[file] < 0)) /* another user's io, an old kernel */
            miss(&record, (Row){values, codes, &state}, file, columns[file], counts[file]);
    }
    return PyBytes_FromStringAndSize((const char *)&record, sizeof record);
}

PyDoc_STRVAR(close_processes_doc,
"close_processes(records)\n\nClose the files of these processes.");

static PyObject *close_processes(PyObject *module, PyObject *argument)
{
    Py_buffer records;
    Record record;
    (void)module;
    if (PyObject_GetBuffer(argument, &records, PyBUF_SIMPLE) < 0)
        return NULL;
    for (Py_ssize_t at = 0; at + (Py_ssize_t)sizeof record <= records.len; at += sizeof record) {
        memcpy(&record, (char *)records.buf + at, sizeof record);
        for (int file = 0; file < FILES; file++)
            if (record.files[file] >= 0)
                close(record.files[file]);
    }
    PyBuffer_Release(&records);
    return Py_BuildValue("");
}

static int add_number(PyObject *list, Py_ssize_t number)
{
    PyObject *object = PyLong_FromSsize_t(number);
    int done = object && PyList_Append(list, object) == 0;
    Py_XDECREF(object);
    return done;
}

/* List of those that are gone; NULL with an exception. */
static PyObject *read_all(const Tick *tick, const Py_buffer *records, const Py_buffer *values, const Py_buffer *codes,
                          const Py_buffer *states)
{
    PyObject *gone = PyList_New(0);
    Py_ssize_t total = records->len / (Py_ssize_t)sizeof(Record);
    for (Py_ssize_t first = 0; gone && first < total; first += GROUP) {
        int count = total - first < GROUP ? (int)(total - first) : GROUP;
        char *place = (char *)records->buf + first * (Py_ssize_t)sizeof(Record);
        Record group[GROUP];
        Row rows[GROUP];
        uint8_t ended[GROUP];
        memcpy(group, place, (size_t)count * sizeof(Record));
        for (int i = 0; i < count; i++)
            rows[i] = (Row){(double *)values->buf + (first + i) * WIDTH, (uint8_t *)codes->buf + (first + i) * WIDTH,
                            (uint8_t *)states->buf + first + i};
        read_group(group, tick, rows, count, ended);
        memcpy(place, group, (size_t)count * sizeof(Record));
        for (int i = 0; gone && i < count; i++)
            if (ended[i] && !add_number(gone, first + i))
                Py_CLEAR(gone);
    }
    return gone;
}

PyDoc_STRVAR(read_processes_doc,
"read_processes(records, values, codes, states, proc, per_second, per_tick, page_size, memory_bytes, thread_cores, netlink,\n"
"family, at) -> rows\n\n"
"Read the files of all ``records`` (changed in place) and write their figures into ``values`` (float64, 16 for each) and\n"
"``codes`` (uint8, as many), the letters of their states into ``states`` (uint8, one for each); ``netlink`` is the socket of taskstats or -1. Answers the rows of the processes that are\n"
"gone, whose figures mean nothing. Raises ValueError when the buffers do not fit.");

static PyObject *read_processes(PyObject *module, PyObject *arguments)
{
    Py_buffer records, values, codes, states;
    Tick tick;
    PyObject *gone = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*w*w*w*ydddddiin", &records, &values, &codes, &states, &tick.proc, &tick.per_second,
                          &tick.per_tick, &tick.page_size, &tick.memory_bytes, &tick.thread_cores, &tick.netlink,
                          &tick.family, &tick.at))
        return NULL;
    Py_ssize_t count = records.len / (Py_ssize_t)sizeof(Record);
    if (records.len % (Py_ssize_t)sizeof(Record) || values.len != count * WIDTH * (Py_ssize_t)sizeof(double) ||
        codes.len != count * WIDTH || states.len != count || tick.at < 0)
        PyErr_SetString(PyExc_ValueError, "records, values, codes and states do not fit");
    else
        gone = read_all(&tick, &records, &values, &codes, &states);
    PyBuffer_Release(&records);
    PyBuffer_Release(&values);
    PyBuffer_Release(&codes);
    PyBuffer_Release(&states);
    return gone;
}

PyDoc_STRVAR(read_once_doc,
"read_once(path, limit) -> data\n\nSee probes.sampling.procfs. Raises OSError.");

static PyObject *read_once(PyObject *module, PyObject *arguments)
{
    const char *path;
    Py_ssize_t limit, size = 0;
    PyObject *name = NULL, *data = NULL;
    int descriptor, error = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O&n", PyUnicode_FSConverter, &name, &limit))
        return NULL;
    path = PyBytes_AsString(name);
    char *text = malloc(limit > 0 ? (size_t)limit : 1);
    Py_BEGIN_ALLOW_THREADS
    descriptor = text ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    error = descriptor < 0 ? errno : 0;
    for (ssize_t more = 1; descriptor >= 0 && more > 0 && size < limit; size += more)
        if ((more = read(descriptor, text + size, (size_t)(limit - size))) < 0) {
            error = errno;
            more = 0;
        }
    if (descriptor >= 0)
        close(descriptor);
    Py_END_ALLOW_THREADS
    errno = error;
    if (!text)
        PyErr_NoMemory();
    else
        data = error ? PyErr_SetFromErrnoWithFilename(PyExc_OSError, path) : PyBytes_FromStringAndSize(text, size);
    free(text);
    Py_DECREF(name);
    return data;
}

PyDoc_STRVAR(read_host_doc,
"read_host(descriptors, record, links, seconds, longest, hertz, page_size, speed, columns, values, codes)\n\n"
"Read the files of the host, HOST_FILES ``descriptors`` (-1: there is none), and write its figures into ``values`` (float64)\n"
"and ``codes``: into place i that of the number ``columns[i]`` (bytes), nothing where there is no such figure.\n"
"``record`` (HOST_RECORD bytes, all 0 at first) and ``links`` (records of probes.figures.agreed.LINK) keep the counters;\n"
"``longest``: seconds that may have passed since the reading before; ``hertz``: ticks of a second in /proc/stat;\n"
"``speed`` is that of the links, NaN: not known. Raises ValueError when the buffers do not fit.");

static int read_files(PyObject *descriptors, Figures *out, HostRecord *record, Link *links, size_t count, double page_size)
{
    for (int file = 0; file < HOST_FILES; file++) {
        long descriptor = PyLong_AsLong(PyTuple_GetItem(descriptors, file));
        if (PyErr_Occurred())
            return 0;
        if (!read_host_file(file, (int)descriptor, out, record, links, count, page_size)) {
            PyErr_NoMemory();
            return 0;
        }
    }
    return 1;
}

static PyObject *read_host(PyObject *module, PyObject *arguments)
{
    Py_buffer kept, links, columns, values, codes;
    PyObject *descriptors;
    double page_size, speed;
    Figures out;
    HostRecord record;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!w*w*dddddy*w*w*", &PyTuple_Type, &descriptors, &kept, &links, &out.seconds,
                          &out.longest, &out.hertz, &page_size, &speed, &columns, &values, &codes))
        return NULL;
    if (PyTuple_Size(descriptors) != HOST_FILES || kept.len != (Py_ssize_t)sizeof record ||
        links.len % (Py_ssize_t)sizeof(Link) || values.len != columns.len * 8 || codes.len != columns.len) {
        PyErr_SetString(PyExc_ValueError, "descriptors, record, links, columns, values and codes do not fit");
    } else {
        memcpy(&record, kept.buf, sizeof record);
        for (int i = 0; i < FIGURES; i++)
            put_code(&out, i, MISSING);
        if (speed == speed)
            put(&out, LINK_SPEED, speed);
        if (read_files(descriptors, &out, &record, links.buf, (size_t)links.len / sizeof(Link), page_size)) {
            memcpy(kept.buf, &record, sizeof record);
            for (Py_ssize_t i = 0; i < columns.len; i++) {
                unsigned figure = ((uint8_t *)columns.buf)[i];
                if (figure < FIGURES) {
                    ((double *)values.buf)[i] = out.values[figure];
                    ((uint8_t *)codes.buf)[i] = out.codes[figure];
                }
            }
        }
    }
    PyBuffer_Release(&kept);
    PyBuffer_Release(&links);
    PyBuffer_Release(&columns);
    PyBuffer_Release(&values);
    PyBuffer_Release(&codes);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"open_process", open_process, METH_VARARGS, open_process_doc},
    {"close_processes", close_processes, METH_O, close_processes_doc},
    {"read_processes", read_processes, METH_VARARGS, read_processes_doc},
    {"read_host", read_host, METH_VARARGS, read_host_doc},
    {"read_once", read_once, METH_VARARGS, read_once_doc},
    {NULL, NULL, 0, NULL},
};

/* Compared by probes.figures.agreed. */
static int list_agreed(PyObject *table)
{
    return 1 AGREE_NUMBER(VALID) AGREE_NUMBER(MISSING) AGREE_NUMBER(FIRST) AGREE_NUMBER(RESET) AGREE_NUMBER(RATE)
        AGREE_NUMBER(STUCK) AGREE_NUMBER(UNREADABLE) AGREE_NAMES("PROCESS_METRICS", PROCESS_METRICS)
        AGREE_NAMES("PROCESS_FILES", PROCESS_FILES) AGREE_NUMBER(SHORT) AGREE_NUMBER(LONG) AGREE_NUMBER(JITTER_TICKS)
        AGREE_NAMES("HOST_FIGURES", HOST_FIGURES) AGREE_NAMES("FILES_OF_HOST", FILES_OF_HOST) AGREE_NUMBER(CPU_JITTER)
        AGREE_DOUBLE(ALL_TICKS) AGREE_DOUBLE(TOLERANCE) AGREE_NUMBER(MOST_CPUS) AGREE_NUMBER(MOST_CORES)
        AGREE_OFFSET(Link, most)
        AGREE_NUMBER(NUMBER_WITHIN) AGREE_SIZE(Link) AGREE_OFFSET(Link, bytes) AGREE_OFFSET(Link, has);
}

static int prepare(PyObject *module)
{
    return PyModule_AddIntConstant(module, "HOST_RECORD", sizeof(HostRecord)) ? -1 : offer_agreed(module, list_agreed);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_process_step", "Reads processes in C; see probes.figures.process_files.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__process_step(void)
{
    return PyModuleDef_Init(&definition);
}
