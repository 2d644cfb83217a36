/* Reads many processes from /proc in one call.

   A tick of a probe reads three files of a hundred processes. The kernel's part of that is 15 microseconds per process;
   in Python as much again went into taking the texts apart (docs/decisions/0042). What is read and what becomes of
   it is in _process_reading.h; probes.sources.process_files stays the definition, tested equal over captured,
   changed and hostile texts (tests/probes/sources/test_process_step.py).

   The state of a process is a Record among the bytes that the caller keeps; nothing is kept here. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#define _GNU_SOURCE
#include <Python.h>

#include "_process_reading.h"

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
    uint8_t codes[WIDTH];
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
            miss(&record, (Row){values, codes}, file, columns[file], counts[file]);
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

/* The list of those that are gone; NULL with an exception. */
static PyObject *read_all(const Tick *tick, const Py_buffer *records, const Py_buffer *values, const Py_buffer *codes)
{
    PyObject *gone = PyList_New(0);
    Py_ssize_t count = records->len / (Py_ssize_t)sizeof(Record);
    for (Py_ssize_t i = 0; gone && i < count; i++) {
        char *place = (char *)records->buf + i * (Py_ssize_t)sizeof(Record);
        Row row = {(double *)values->buf + i * WIDTH, (uint8_t *)codes->buf + i * WIDTH};
        Record record;
        memcpy(&record, place, sizeof record);
        int found = read_process(&record, tick, row);
        memcpy(place, &record, sizeof record);
        if (found == GONE) {
            PyObject *number = PyLong_FromSsize_t(i);
            if (!number || PyList_Append(gone, number) < 0)
                Py_CLEAR(gone);
            Py_XDECREF(number);
        }
    }
    return gone;
}

PyDoc_STRVAR(read_processes_doc,
"read_processes(records, values, codes, proc, per_second, per_tick, page_size, memory_bytes, netlink, family, at)\n"
"-> rows\n\n"
"Read the files of all ``records`` (changed in place) and write their figures into ``values`` (float64, 16 for each) and\n"
"``codes`` (uint8, as many); ``netlink`` is the socket of taskstats or -1. Answers the rows of the processes that are\n"
"gone, whose figures mean nothing. Raises ValueError when the buffers do not fit.");

static PyObject *read_processes(PyObject *module, PyObject *arguments)
{
    Py_buffer records, values, codes;
    Tick tick;
    PyObject *gone = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*w*w*yddddiin", &records, &values, &codes, &tick.proc, &tick.per_second,
                          &tick.per_tick, &tick.page_size, &tick.memory_bytes, &tick.netlink, &tick.family, &tick.at))
        return NULL;
    Py_ssize_t count = records.len / (Py_ssize_t)sizeof(Record);
    if (records.len % (Py_ssize_t)sizeof(Record) || values.len != count * WIDTH * (Py_ssize_t)sizeof(double) ||
        codes.len != count * WIDTH || tick.at < 0)
        PyErr_SetString(PyExc_ValueError, "records, values and codes do not fit");
    else
        gone = read_all(&tick, &records, &values, &codes);
    PyBuffer_Release(&records);
    PyBuffer_Release(&values);
    PyBuffer_Release(&codes);
    return gone;
}

static PyMethodDef methods[] = {
    {"open_process", open_process, METH_VARARGS, open_process_doc},
    {"close_processes", close_processes, METH_O, close_processes_doc},
    {"read_processes", read_processes, METH_VARARGS, read_processes_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_process_step", "Reads processes in C; see probes.sources.process_files.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__process_step(void)
{
    return PyModuleDef_Init(&definition);
}
