/* Folds one frame into the accumulators of its minute in one native call; see filters.archive.minutes.rollup.

The same figures as numpy's except the last bits: each sample is added separately (Welford 1962), while numpy adds
sixteen frames at a time (Chan, Golub, LeVeque 1983). */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../../acquisition/wire/agreed.h"

enum { COUNT, VALID, MEAN, SQUARES, LOW, HIGH, LAST, LAST_TICK, PLANES };
enum { VALUES = PLANES, CODES, ROWS, BUFFERS };

static const Py_ssize_t widths[PLANES] = {8, 8, 8, 8, 4, 4, 4, 8};

typedef struct {
    uint32_t cell;
    uint32_t code;
    float value;
} Invalid;

static int list_agreed(PyObject *table)
{
    return 1 AGREE_SIZE(Invalid) AGREE_OFFSET(Invalid, cell) AGREE_OFFSET(Invalid, code) AGREE_OFFSET(Invalid, value);
}

typedef struct {
    double *count, *valid, *mean, *squares;
    float *low, *high, *last;
    int64_t *last_tick;
} Planes;

static void add(const Planes *to, size_t at, double x, float value, int64_t tick)
{
    double apart = x - to->mean[at];
    double mean = to->mean[at] + apart / (to->valid[at] += 1.0);
    to->squares[at] += apart * (x - mean);
    to->mean[at] = mean;
    if (!(to->low[at] <= value))
        to->low[at] = value;
    if (!(to->high[at] >= value))
        to->high[at] = value;
    if (tick >= to->last_tick[at]) {
        to->last[at] = value;
        to->last_tick[at] = tick;
    }
}

/* The invalid samples; NULL if memory is exhausted. ``rows`` are below ``entities``. */
static PyObject *fold_all(const Planes *to, const Py_buffer *given, size_t metrics, int64_t tick, unsigned mask)
{
    size_t samples = (size_t)given[VALUES].len / 4, found = 0, room = 0;
    const char *values = given[VALUES].buf;
    const uint8_t *codes = given[CODES].len ? given[CODES].buf : NULL;
    const int64_t *rows = given[ROWS].len ? given[ROWS].buf : NULL;
    Invalid *invalid = NULL;
    PyObject *answer = NULL;
    if (codes)
        for (size_t n = 0; n < samples; n++)
            room += (codes[n] & mask) != 0;
    if (room && !(invalid = malloc(room * sizeof(Invalid))))
        return PyErr_NoMemory();
    for (size_t row = 0, n = 0; n < samples; row++) {
        size_t at = (rows ? (size_t)rows[row] : row) * metrics;
        for (size_t column = 0; column < metrics; column++, n++, at++) {
            float value;
            memcpy(&value, values + 4 * n, 4);
            to->count[at] += 1.0;
            if (codes && (codes[n] & mask))
                invalid[found++] = (Invalid){(uint32_t)n, codes[n] & mask, value};
            else if (isfinite(value))
                add(to, at, (double)value, value, tick);
        }
    }
    answer = PyBytes_FromStringAndSize((const char *)invalid, (Py_ssize_t)(found * sizeof(Invalid)));
    free(invalid);
    return answer;
}

static const char *fault(const Py_buffer *given, Py_ssize_t metrics)
{
    Py_ssize_t cells = given[COUNT].len / 8, samples = given[VALUES].len / 4;
    for (int n = 0; n < PLANES; n++)
        if (given[n].len != cells * widths[n])
            return "the accumulators are not of one size";
    if (metrics < 1 || cells % metrics || samples % metrics || given[VALUES].len % 4)
        return "values do not fit metrics";
    if (given[CODES].len && given[CODES].len != samples)
        return "there is not a code for each value";
    if (!given[ROWS].len)
        return samples > cells ? "there are more values than accumulators" : NULL;
    if (given[ROWS].len != samples / metrics * 8)
        return "there is not a row for each entity";
    const int64_t *rows = given[ROWS].buf;
    for (Py_ssize_t n = 0; n < samples / metrics; n++)
        if (rows[n] < 0 || rows[n] >= cells / metrics)
            return "a row is beyond the accumulators";
    return NULL;
}

PyDoc_STRVAR(fold_doc,
"fold(count, valid, mean, squares, low, high, last, last_tick, values, codes, rows, metrics, tick, mask) -> invalid\n\n"
"Add a frame: ``values`` (float32) and ``codes`` (uint8, or none) of entities x ``metrics`` samples of a ``tick``, into\n"
"accumulators of as many columns (float64 four times, float32 three times, int64), changed in place; ``rows`` (int64)\n"
"are where in them each entity lies, none: one after the other. Samples whose code has bits of ``mask`` are invalid:\n"
"answers (cell, code, value) of each as uint32, uint32, float32. Raises ValueError when buffers do not fit; nothing is\n"
"changed then.");

static PyObject *fold(PyObject *module, PyObject *arguments)
{
    Py_buffer given[BUFFERS];
    Py_ssize_t metrics;
    long long tick;
    int mask;
    PyObject *answer = NULL;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*w*w*w*w*w*w*w*y*y*y*nLi", &given[COUNT], &given[VALID], &given[MEAN],
                          &given[SQUARES], &given[LOW], &given[HIGH], &given[LAST], &given[LAST_TICK], &given[VALUES],
                          &given[CODES], &given[ROWS], &metrics, &tick, &mask))
        return NULL;
    const char *wrong = fault(given, metrics);
    if (wrong)
        PyErr_SetString(PyExc_ValueError, wrong);
    else {
        Planes to = {given[COUNT].buf, given[VALID].buf, given[MEAN].buf, given[SQUARES].buf,
                     given[LOW].buf,   given[HIGH].buf,  given[LAST].buf, given[LAST_TICK].buf};
        answer = fold_all(&to, given, (size_t)metrics, (int64_t)tick, (unsigned)mask);
    }
    for (int n = 0; n < BUFFERS; n++)
        PyBuffer_Release(&given[n]);
    return answer;
}

static PyMethodDef methods[] = {
    {"fold", fold, METH_VARARGS, fold_doc},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    return offer_agreed(module, list_agreed);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_fold", "Adds frames to minutes in C; see filters.archive.minutes.rollup.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__fold(void)
{
    return PyModuleDef_Init(&definition);
}
