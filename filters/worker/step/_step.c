/* One frame of the filter in one native call: smooth it, update its decision inputs, and write the commands of both.

State is changed in place; results are separate bytes objects, so that a state may take its next frame before they
are sent (docs/decisions/0018). Nothing is changed unless everything fits. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "../../../acquisition/wire/agreed.h"
#include "../../../acquisition/wire/smoothed_header.h"
#include "shared.h"
#include "smoothing.h"
#include "order.h"
#include "bursts.h"
#include "inputs.h"
#include "given.h"
#include "commands.h"
#include "../../../acquisition/wire/crc32.h"
#include "../../../acquisition/wire/frame_header.h"
#include "next_frame.h"
#include "stepper.h"
#include "names.h"
#include "followers.h"
#include "turn.h"
#include "positions.h"

static PyObject *run(const Frame *frame, Inputs *inputs, const Py_buffer *given, int raw)
{
    Room room = {0};
    Moved moved;
    PyObject *answer = NULL;
    if (!make_room(&room, frame, inputs))
        return NULL;
    if (move(frame, inputs, given, raw, &room, 1, &moved)) {
        if (!moved.row) {
            Py_INCREF(Py_None);
            moved.row = Py_None;
        }
        answer = Py_BuildValue("y#nNN", (const char *)room.exceptions,
                               (Py_ssize_t)(moved.exceptions * sizeof(Exception)), (Py_ssize_t)moved.invalid,
                               moved.record, moved.row);
    }
    free_room(&room);
    return answer;
}

PyDoc_STRVAR(advance_doc,
"advance(planes, numbers, values, codes, exceptions, dt, taus, head, ids, raw, prefix, tail, inputs)\n"
" -> (exceptions, invalid, record, row)\n\n"
"Move ``planes`` (float32, len(numbers) x N, changed in place; ``numbers`` are their plane ids) by one frame:\n"
"``values`` float32 (N,), ``codes`` uint8 (N,) or empty, ``dt`` seconds since the frame before it, ``taus`` float64\n"
"seconds, one or one for each metric. ``exceptions``: the samples that were not plainly valid in the frame before,\n"
"as acquisition.wire.records.smoothed.EXCEPTION; answers those of this one, and how many of them failed a check.\n"
"``record`` is the SET command of the smoothed record: ``prefix``, its length, ``head`` (the header, in which it\n"
"writes how many exceptions there are and how large the section is), the section, ``ids``, ``raw`` times the values,\n"
"planes, exceptions, and ``tail``.\n"
"``inputs`` is None, or (memory, plan, dt, seconds, step, first, missing, begins, row_prefix, capacity, rows_at): the\n"
"memory of filters.worker.inputs.state.InputsState, moved in place, the plan as filters.worker.inputs.plan packs it,\n"
"seconds since the frame before and that a sample stands for, the steps of this tick and of the oldest that is known,\n"
"how many ticks before it never came, whether nothing is known of those before. ``row`` is then the SETRANGE command of the row of\n"
"recent values: ``row_prefix``, its place behind ``rows_at``, and the row with ``capacity`` slots; else None.\n"
"Raises ValueError; nothing is changed then.");

static PyObject *advance(PyObject *module, PyObject *arguments)
{
    Py_buffer given[BUFFERS];
    PyObject *given_inputs, *answer = NULL;
    Inputs inputs;
    Frame frame;
    int raw;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*y*y*y*dy*y*y*iy*y*O", &given[PLANES_BUFFER], &given[NUMBERS], &given[VALUES],
                          &given[CODES], &given[EXCEPTIONS], &frame.dt, &given[TAUS], &given[HEAD], &given[IDS],
                          &raw, &given[PREFIX], &given[TAIL], &given_inputs))
        return NULL;
    frame.samples = (size_t)given[VALUES].len / 4;
    frame.values = given[VALUES].buf;
    frame.codes = given[CODES].len ? given[CODES].buf : NULL;
    frame.before = given[EXCEPTIONS].buf;
    frame.before_count = (size_t)given[EXCEPTIONS].len / sizeof(Exception);
    frame.taus = given[TAUS].buf;
    frame.tau_count = (size_t)given[TAUS].len / 8;
    if (read_inputs(given_inputs, &inputs)) {
        const char *wrong = raw < 0 || raw > MAX_PLANES ? "there are too many raw planes" : fault(&frame, given);
        if (!wrong && !place_planes(&frame.planes, given[PLANES_BUFFER].buf, frame.samples, &given[NUMBERS]))
            wrong = "numbers must be of different known planes, the mean among them";
        if (!wrong && inputs.held)
            wrong = inputs_fault(&inputs, &frame, given);
        if (wrong)
            PyErr_SetString(PyExc_ValueError, wrong);
        else
            answer = run(&frame, &inputs, given, raw);
    }
    if (inputs.held)
        release(inputs.given, INPUTS_BUFFERS);
    release(given, BUFFERS);
    return answer;
}

static PyMethodDef methods[] = {
    {"advance", advance, METH_VARARGS, advance_doc},
    {"take_followers", take_followers, METH_VARARGS, take_followers_doc},
    {"write_positions", write_positions, METH_VARARGS, write_positions_doc},
    {"run_all", run_all, METH_VARARGS, run_all_doc},
    {NULL, NULL, 0, NULL},
};

/* Compared by filters.worker.compute.agreed. */
static int list_agreed(PyObject *table)
{
    return 1 AGREE_SMOOTHED AGREE_FRAME_HEADER
        AGREE_NUMBER(VALID) AGREE_NUMBER(MISSING) AGREE_NUMBER(FIRST) AGREE_NUMBER(LATE) AGREE_NUMBER(RANGE)
        AGREE_NUMBER(CODE_MASK) AGREE_NUMBER(OUTLIER)
        AGREE_NUMBER(MEAN) AGREE_NUMBER(VARIANCE) AGREE_NUMBER(TREND) AGREE_DOUBLE(LARGEST) AGREE_DOUBLE(ABSENT)
        AGREE_NAMES("BURST_FIGURES_KEPT", BURST_FIGURES_KEPT) AGREE_NUMBER(BURST_SLOTS) AGREE_DOUBLE(BURST_LEAST)
        AGREE_DOUBLE(BURST_MOST) AGREE_DOUBLE(BURST_FALL) AGREE_DOUBLE(BURST_SLOT_SECONDS) AGREE_DOUBLE(BURST_SLOT_NUMBERS)
        AGREE_DOUBLE(BURST_SAME_SHARE) AGREE_DOUBLE(BURST_SAME_SECONDS)
        AGREE_NAMES("FIGURES_KEPT", FIGURES_KEPT) AGREE_NAMES("PLANES_OF_DERIVED", PLANES_OF_DERIVED)
        AGREE_NAMES("COUNTS_KEPT", COUNTS_KEPT) AGREE_NUMBER(SECTION_HEADER) AGREE_NUMBER(STEP_AT)
        AGREE_NUMBER(FIRST_AT) AGREE_NAMES("FORMULAS_KNOWN", FORMULAS_KNOWN) AGREE_NUMBER(MOST_PARTS) AGREE_NUMBER(NO_PART)
        AGREE_SIZE(Shape) AGREE_SIZE(Derived) AGREE_DOUBLE(SHORTEST) AGREE_DOUBLE(LONGEST) AGREE_DOUBLE(GAP)
        AGREE_NUMBER(PADDING) AGREE_NUMBER(ROW_HEADER) AGREE_NUMBER(SEED_HEADER) AGREE_NUMBER(NOT_VALID)
        AGREE_NUMBER(NOT_THERE) AGREE_NUMBER(SHEDS) AGREE_NUMBER(ENDED) AGREE_NUMBER(CONTESTED)
        AGREE_NUMBER(MOST_CELLS) AGREE_NUMBER(MOST_COUNTED) AGREE_BYTES(ENTRY_FIELD)
        AGREE_NAMES("PARTS_ACCEPTED", PARTS_ACCEPTED) AGREE_NAMES("ATTRIBUTES_OF_STATE", ATTRIBUTES_OF_STATE)
        AGREE_NAMES("ATTRIBUTES_OF_BATCH", ATTRIBUTES_OF_BATCH)
        AGREE_OFFSET(Exception, index) AGREE_OFFSET(Exception, code) AGREE_OFFSET(Exception, age)
        AGREE_SIZE(Track) AGREE_OFFSET(Track, flags) AGREE_OFFSET(Track, interval) AGREE_OFFSET(Track, epoch)
        AGREE_OFFSET(Track, sequence) AGREE_OFFSET(Track, tick) AGREE_OFFSET(Track, wall) AGREE_OFFSET(Track, applied)
        AGREE_OFFSET(Track, invalid) AGREE_OFFSET(Track, frames) AGREE_OFFSET(Track, made);
}

static int prepare(PyObject *module)
{
    make_crc_table();
    folds = can_fold();
    if (!make_names() || offer_agreed(module, list_agreed))
        return -1;
    stepper_type = PyType_FromSpec(&stepper_spec);
    return stepper_type && !PyModule_AddObjectRef(module, "Stepper", stepper_type) ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_step", "The step of the filter in C; see filters.worker.step.native.", 0, methods, slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__step(void)
{
    return PyModuleDef_Init(&definition);
}
