/* Definitions shared with Python: each list and number is only here in C, and filters.worker.compute.agreed compares it
   with the definitions. */

/* acquisition.model.codes */
enum { VALID = 0, MISSING = 1, FIRST = 2, RANGE = 3, LATE = 11, CODE_MASK = 0x7f, OUTLIER = 0x80 };
enum { MEAN = 2, VARIANCE = 3, TREND = 4 }; /* acquisition.wire.records.planes */
#define LARGEST 1e18f /* filters.kernels.numpy_step.LARGEST */

/* acquisition.wire.records.inputs */
#define FIGURES_KEPT(DO) \
    DO(CUSUM, "cusum") DO(TIME_ABOVE, "time_above") DO(LOWEST, "lowest") DO(HIGHEST, "highest") \
    DO(MEDIAN, "median") DO(MAD, "mad") DO(Q1, "q1") DO(Q3, "q3")
#define PLANES_OF_DERIVED(DO) \
    DO(LAST, "last") DO(DERIVED_MEAN, "mean") DO(DERIVED_VARIANCE, "variance") DO(DERIVED_TREND, "trend") DO(AGE, "age")
#define COUNTS_KEPT(DO) DO(VALID_COUNT, "valid") DO(COUNTED, "counted") DO(ABOVE, "above")
#define SIX(DO, name, text) \
    DO(name##_0, text "_0") DO(name##_1, text "_1") DO(name##_2, text "_2") DO(name##_3, text "_3") \
    DO(name##_4, text "_4") DO(name##_5, text "_5")
#define BURST_FIGURES_KEPT(DO) \
    DO(BURST_OPEN, "open") DO(BURST_PEAK, "peak") DO(BURST_HELD, "held") DO(BURST_SLOT, "slot") \
    DO(BURST_SINCE, "since") DO(BURST_LENGTH, "length") DO(BURST_PERIOD, "period") DO(BURST_REGULAR, "regular") \
    SIX(DO, BURST_LONGEST, "longest") SIX(DO, BURST_COUNT, "count") SIX(DO, BURST_HEIGHT, "height")
enum { BURST_FIGURES_KEPT(AS_PLACE) BURST_FIGURES };
enum { BURST_SLOTS = 6 };
enum { FIGURES_KEPT(AS_PLACE) ALL_FIGURES };
enum { PLANES_OF_DERIVED(AS_PLACE) DERIVED_PLANES };
enum { COUNTS_KEPT(AS_PLACE) COUNTS };
enum { SECTION_HEADER = 48, STEP_AT = 16, FIRST_AT = 24 };

/* filters.worker.inputs.plan.FORMULAS */
#define FORMULAS_KNOWN(DO) \
    DO(CPU_BUSY, "cpu_busy_ratio") DO(MEMORY_USED, "memory_used_ratio") DO(NETWORK_USED, "network_used_ratio") \
    DO(CPU_WAITING, "cpu_waiting_ratio")
enum { FORMULAS_KNOWN(AS_PLACE) FORMULAS };
enum { MOST_PARTS = 6, NO_PART = -1 }; /* of a formula */

/* filters.worker.inputs.bursts: seconds, parts of the load, seconds of a slot */
#define BURST_LEAST 3.0f
#define BURST_MOST 15.0f
#define BURST_FALL 0.1f
#define BURST_SLOT_SECONDS 1800.0
#define BURST_SLOT_NUMBERS 1048576.0
#define BURST_SAME_SHARE 0.1f
#define BURST_SAME_SECONDS 3.0f

/* filters.worker.inputs.state */
#define SHORTEST 1e-9 /* seconds between two frames */
#define LONGEST 1e9f  /* seconds that a sample stands for */
#define GAP 1.5       /* intervals; with more, a tick between two frames never came */
enum { PADDING = 8 }; /* a sorted window has a multiple of this many places */

/* acquisition.wire.records.recent */
enum { ROW_HEADER = 24, SEED_HEADER = 8 };
#define NOT_VALID 0x7fc00000u /* a quiet NaN, its lowest byte is the code */
#define NOT_THERE 0xffu

enum { SHEDS = 2, ENDED = 4, CONTESTED = 8 }; /* acquisition.wire.position */
#define MOST_CELLS ((uint64_t)1 << 24)        /* acquisition.wire.frame */
#define MOST_COUNTED ((uint64_t)1 << 53)

#define ENTRY_FIELD "f" /* acquisition.wire.keys */

/* filters.worker.partitions.batch.Accepted */
#define PARTS_ACCEPTED(DO) \
    DO(BATCH_AT, "batch") DO(STATE_AT, "state") DO(SAMPLES_AT, "samples") DO(DATA_AT, "data") \
    DO(FRAME_AT, "frame")
enum { PARTS_ACCEPTED(AS_PLACE) ACCEPTED_PARTS };

/* Attributes read from Python objects: of filters.worker.states.state.State, and of
   filters.worker.partitions.batch.Batch. */
#define ATTRIBUTES_OF_STATE(DO) DO(s_member, "member") DO(s_shape, "shape") DO(s_stepper, "stepper") DO(s_track, "track")
#define ATTRIBUTES_OF_BATCH(DO) DO(s_records, "records") DO(s_extra, "extra")
