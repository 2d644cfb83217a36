/* What a writer does for every frame: number and encode it, keep it in its ring (offer), make the command that sends
   it (take), and match the reply with it (confirm). acquisition.outbox is the definition: writer.Writer.offer,
   store.Outbox, in_flight.InFlight.take and confirm. What is not plain (a full disk, a frame that is sent again, one that has to wait) is left to it.

   State stays in the attributes of these objects. lane.h reads and writes it. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "../wire/crc32.h"
#include "../wire/frame_header.h"
#include "lane.h"
#include "room.h"
#include "encoded.h"
#include "sent.h"
#include "confirmed.h"

static PyMethodDef methods[] = {
    {"offer", offer, METH_VARARGS, offer_doc},
    {"take", take, METH_VARARGS, take_doc},
    {"confirm", confirm, METH_VARARGS, confirm_doc},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    (void)module;
    make_crc_table();
    folds = can_fold();
    return make_names() ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_per_frame", "What a writer does for every frame; see acquisition.outbox.per_frame.", 0,
    methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__per_frame(void)
{
    return PyModuleDef_Init(&definition);
}
