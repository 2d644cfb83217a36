/* Reads one process from /proc, as probes.figures.process_files.ProcessFiles, over a Record. See _process_step.c,
   which includes this.

   process_files stays the definition: the same files in the same order, the same figures and codes. */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/socket.h>
#include <unistd.h>

#include "_task_stats.h"

/* acquisition.model.codes */
enum { VALID = 0, MISSING = 1, FIRST = 2, RESET = 4, RATE = 6, STUCK = 7, UNREADABLE = 10 };
/* probes.metrics.PROCESSES */
#define PROCESS_METRICS(DO) \
    DO(USER, "cpu_user_ratio") DO(SYSTEM, "cpu_system_ratio") DO(GUEST, "cpu_guest_ratio") \
    DO(WAIT, "cpu_wait_ratio") DO(ALL_CPU, "cpu_ratio") DO(MINOR, "minor_faults_per_second") \
    DO(MAJOR, "major_faults_per_second") DO(VIRTUAL, "memory_virtual_bytes") DO(RESIDENT, "memory_resident_bytes") \
    DO(SHARE, "memory_ratio") DO(READ, "disk_read_bytes_per_second") DO(WRITTEN, "disk_write_bytes_per_second") \
    DO(CANCELLED, "disk_write_cancelled_bytes_per_second") DO(DELAY, "io_delay_ticks") \
    DO(VOLUNTARY, "voluntary_switches_per_second") DO(INVOLUNTARY, "involuntary_switches_per_second")
/* probes.figures.process_row.FILES */
#define PROCESS_FILES(DO) DO(STAT, "stat") DO(STATUS, "status") DO(IO, "io") DO(SCHEDSTAT, "schedstat")
enum { PROCESS_METRICS(AS_PLACE) WIDTH };
enum { PROCESS_FILES(AS_PLACE) FILES };
enum { CLOSED = -1, ABSENT = -2 };
enum { SHORT = 511, LONG = 16384, STAT_FIELDS = 41, JITTER_TICKS = 2, MOST_PATH = 4096 };
enum { LIVES, GONE };

static const char *const NAMES[FILES] = {PROCESS_FILES(AS_TEXT)};
enum { CPU_COUNTERS = 4 }; /* the first ones */
static const int STAT_COUNTERS[] = {USER, SYSTEM, GUEST, ALL_CPU, MINOR, MAJOR, DELAY};
static const int IO_COUNTERS[] = {READ, WRITTEN, CANCELLED};
static const int THREAD_COUNTERS[] = {WAIT, VOLUNTARY, INVOLUNTARY};
static const int GAUGES[] = {VIRTUAL, RESIDENT, SHARE};
#define COUNT(table) (sizeof(table) / sizeof *(table))

typedef struct {
    Number stat[COUNT(STAT_COUNTERS)], io[COUNT(IO_COUNTERS)], thread[COUNT(THREAD_COUNTERS)];
    Number threads;
    uint64_t start;          /* the expected start time of the process */
    uint64_t sched_text;     /* a hash of schedstat's text */
    int32_t pid;
    int32_t files[FILES];    /* a descriptor, CLOSED: opened at each read, ABSENT: not wanted or not readable */
    uint8_t steady[WIDTH];   /* codes for every tick: VALID or MISSING */
    uint8_t has_stat, has_io, has_thread; /* whether there are counters of the previous tick */
    uint8_t thread_wanted, ran;
} Record;

typedef struct {
    double *values;
    uint8_t *codes;
    uint8_t *state; /* the letter of the state of the process, 0: unknown */
} Row;

/* Figures and codes */

static void mark(const Record *record, Row row, const int *columns, size_t count, uint8_t code)
{
    for (size_t i = 0; i < count; i++)
        if (!record->steady[columns[i]]) {
            row.codes[columns[i]] = code;
            row.values[columns[i]] = NAN;
        }
}

/* Rates of some counters, which replace those of the previous tick; all are FIRST if there were none. Returns whether
   any of them has changed. */
static int grow(const Record *record, Row row, const int *columns, size_t count, Number *old, const Number *new,
                uint8_t *has, int jitter, const double *scale)
{
    int moved = !*has;
    if (!*has)
        mark(record, row, columns, count, FIRST);
    for (size_t i = 0; i < count; i++) {
        Number grown = new[i] - old[i];
        old[i] = new[i];
        moved |= grown != 0;
        if (!*has)
            continue;
        if (grown < -jitter)
            mark(record, row, columns + i, 1, RESET);
        else if (!record->steady[columns[i]])
            row.values[columns[i]] = grown < 0 ? 0.0 : as_double(grown) * scale[i];
    }
    *has = 1;
    return moved;
}

static void miss(Record *record, Row row, int file, const int *columns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        record->steady[columns[i]] = row.codes[columns[i]] = MISSING;
        row.values[columns[i]] = NAN;
    }
    if (record->files[file] >= 0)
        close(record->files[file]);
    record->files[file] = ABSENT;
}

/* Files */

static int open_file(const char *proc, int pid, int file)
{
    char path[MOST_PATH];
    snprintf(path, sizeof path, "%s/%d/%s", proc, pid, NAMES[file]);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int is_there(const char *proc, int pid)
{
    char path[MOST_PATH];
    snprintf(path, sizeof path, "%s/%d/%s", proc, pid, NAMES[STAT]);
    return access(path, F_OK) == 0;
}

/* Up to ``most`` bytes of a file of the process; negative: errno, EACCES also for a file that does not exist although
   the process does. */
static ssize_t read_file(const Record *record, const Tick *tick, int file, char *text, size_t most)
{
    int kept = record->files[file];
    int descriptor = kept >= 0 ? kept : open_file(tick->proc, record->pid, file);
    if (descriptor < 0) {
        int error = errno;
        return error == ENOENT && file != STAT && is_there(tick->proc, record->pid) ? -EACCES : -error;
    }
    ssize_t size = pread(descriptor, text, most, 0);
    int error = errno;
    if (kept < 0)
        close(descriptor);
    return size >= 0 ? size : -error;
}

static int take_stat(const Record *record, const char *text, size_t size, Number *new, Number *gauges, uint8_t *state)
{
    static const uint8_t wanted[STAT_FIELDS] = {[7] = 1, [9] = 1, [11] = 1, [12] = 1, [17] = 1, [19] = 1,
                                                [20] = 1, [21] = 1, [39] = 1, [40] = 1};
    Number found[STAT_FIELDS];
    uint8_t letter = 0;
    const char *end = text + size, *at = memrchr(text, ')', size);
    if (!at || size == LONG)
        return -1;
    at = at + 2 < end ? at + 2 : end;
    for (int i = 0; i < STAT_FIELDS; i++) {
        size_t length;
        const char *word = next_word(&at, end, &length);
        if (!i && word)
            letter = (uint8_t)*word;
        if (wanted[i] && !number_of(word, length, &found[i]))
            return -1;
    }
    new[0] = found[11] - found[40]; /* the kernel's user time includes guest time */
    new[1] = found[12];
    new[2] = found[40];
    new[3] = found[11] + found[12];
    new[4] = found[7];
    new[5] = found[9];
    new[6] = found[39];
    gauges[0] = found[20];
    gauges[1] = found[21];
    gauges[2] = found[17];
    *state = letter;
    return found[19] == (Number)record->start ? LIVES : GONE;
}

/* The process cannot have run for longer than the threads of this reading or the previous one, whichever were more. */
static void bound_by_threads(Record *record, const Tick *tick, Row row, Number threads)
{
    Number most = threads > record->threads ? threads : record->threads;
    double limit = as_double(most > 1 ? most : 1) * tick->thread_cores;
    record->threads = threads;
    for (int i = 0; i < CPU_COUNTERS; i++)
        if (row.values[STAT_COUNTERS[i]] > limit)
            row.codes[STAT_COUNTERS[i]] = RATE;
}

static int read_stat(Record *record, const Tick *tick, Row row, char *text)
{
    const double scale[] = {tick->per_tick, tick->per_tick, tick->per_tick, tick->per_tick,
                            tick->per_second, tick->per_second, 1.0};
    Number new[COUNT(STAT_COUNTERS)], gauges[3];
    ssize_t size = read_file(record, tick, STAT, text, LONG);
    if (size < 0)
        return GONE;
    *row.state = 0;
    int found = take_stat(record, text, (size_t)size, new, gauges, row.state);
    if (found == GONE)
        return GONE;
    if (found < 0) {
        mark(record, row, STAT_COUNTERS, COUNT(STAT_COUNTERS), UNREADABLE);
        mark(record, row, GAUGES, COUNT(GAUGES), UNREADABLE);
        record->has_stat = 0;
        return LIVES;
    }
    row.values[VIRTUAL] = as_double(gauges[0]);
    row.values[RESIDENT] = as_double(gauges[1]) * tick->page_size;
    row.values[SHARE] = tick->memory_bytes != 0.0 ? row.values[RESIDENT] / tick->memory_bytes : NAN;
    grow(record, row, STAT_COUNTERS, COUNT(STAT_COUNTERS), record->stat, new, &record->has_stat, JITTER_TICKS, scale);
    bound_by_threads(record, tick, row, gauges[2]);
    return LIVES;
}

static int read_io(Record *record, const Tick *tick, Row row, char *text)
{
    static const char label[] = "read_bytes:";
    const double scale[] = {tick->per_second, tick->per_second, tick->per_second};
    Number new[COUNT(IO_COUNTERS)];
    if (record->files[IO] == ABSENT)
        return LIVES;
    ssize_t size = read_file(record, tick, IO, text, SHORT);
    if (size < 0 && size != -EACCES && size != -EPERM)
        return GONE;
    if (size <= 0) { /* it runs as another user now */
        miss(record, row, IO, IO_COUNTERS, COUNT(IO_COUNTERS));
        return LIVES;
    }
    const char *end = text + size, *at = memmem(text, (size_t)size, label, sizeof label - 1);
    for (size_t i = 0; i < COUNT(IO_COUNTERS); i++) {
        size_t length;
        const char *word = NULL;
        if (at && next_word(&at, end, &length)) /* the label */
            word = next_word(&at, end, &length);
        if (!word || size == SHORT || !number_of(word, length, &new[i])) {
            mark(record, row, IO_COUNTERS, COUNT(IO_COUNTERS), UNREADABLE);
            record->has_io = 0;
            return LIVES;
        }
    }
    grow(record, row, IO_COUNTERS, COUNT(IO_COUNTERS), record->io, new, &record->has_io, 0, scale);
    return LIVES;
}

/* Numbers in a text split into words, as in probes.figures.process_files: those at ``first`` and ``second``
   of at least ``least`` words; 1: found, 0: too few words, -1: not numbers. */
static int find_numbers(const char *at, const char *end, int least, int first, int second, Number *one, Number *two)
{
    int bad = 0;
    for (int i = 0; i < least; i++) {
        size_t length;
        const char *word = next_word(&at, end, &length);
        if (!word)
            return 0;
        if (i == first)
            bad |= !number_of(word, length, one);
        if (i == second)
            bad |= !number_of(word, length, two);
    }
    return bad ? -1 : 1;
}

/* Data about the first thread of a process when taskstats is asked. */
typedef struct {
    int lives, still;   /* still: it has not run, so it has not switched */
    ssize_t size;       /* of the text of schedstat */
    char schedstat[SHORT];
    Question question;
} Thread;

/* Nanoseconds of waiting, 0 if unavailable; returns 1, or 0: the process is gone, -1: invalid text. */
static int find_wait(Record *record, const Tick *tick, Row row, const Thread *thread, char *text, Number *waited)
{
    static const int columns[] = {WAIT};
    const char *said = thread->schedstat;
    ssize_t size = thread->size;
    *waited = 0;
    if (record->files[SCHEDSTAT] == ABSENT)
        return 1;
    if (!size) {
        said = text;
        size = read_file(record, tick, SCHEDSTAT, text, SHORT);
    }
    if (size > 0)
        return find_numbers(said, said + size, 3, 1, -1, waited, NULL) == 1 ? 1 : -1;
    if (size < 0 && size != -EACCES && size != -EPERM)
        return 0;
    miss(record, row, SCHEDSTAT, columns, COUNT(columns));
    return 1;
}

/* Nanoseconds of waiting, voluntary and involuntary switches; 0 for unwanted or unreadable ones. */
static int find_thread(Record *record, const Tick *tick, Row row, const Thread *thread, char *text, Number *new)
{
    static const char label[] = "\nvoluntary_ctxt_switches:";
    static const int columns[] = {VOLUNTARY, INVOLUNTARY};
    if (thread->question.answered) {
        memcpy(new, thread->question.figures, sizeof thread->question.figures);
        return 1;
    }
    new[1] = new[2] = 0;
    int wait = find_wait(record, tick, row, thread, text, &new[0]);
    if (wait != 1)
        return wait;
    if (record->files[STATUS] == ABSENT)
        return 1;
    ssize_t length = read_file(record, tick, STATUS, text, LONG);
    if (length < 0 && length != -EACCES && length != -EPERM)
        return 0;
    const char *at = length > 0 ? find_last(text, (size_t)length, label) : NULL;
    int found = at ? find_numbers(at, text + length, 4, 1, 3, &new[1], &new[2]) : 0;
    if (!found)
        miss(record, row, STATUS, columns, COUNT(columns));
    return found < 0 ? -1 : 1;
}

static int read_schedstat(Record *record, const Tick *tick, Thread *thread)
{
    if (!record->thread_wanted || record->files[SCHEDSTAT] == ABSENT || (record->ran && tick->netlink >= 0))
        return LIVES;
    thread->size = read_file(record, tick, SCHEDSTAT, thread->schedstat, SHORT);
    if (thread->size < 0 && thread->size != -EACCES && thread->size != -EPERM)
        return GONE;
    thread->size = thread->size < 0 ? 0 : thread->size;
    uint64_t hash = hash_of(thread->schedstat, (size_t)thread->size);
    thread->still = record->has_thread && hash == record->sched_text;
    record->sched_text = hash;
    return LIVES;
}

/* Everything except the figures of taskstats; returns whether that is to be asked. */
static int begin_process(Record *record, const Tick *tick, Row row, char *text, Thread *thread)
{
    thread->still = thread->question.answered = 0;
    thread->size = 0;
    for (int i = 0; i < WIDTH; i++) {
        row.codes[i] = record->steady[i];
        row.values[i] = NAN;
    }
    thread->lives = read_stat(record, tick, row, text) == LIVES && read_io(record, tick, row, text) == LIVES
                    && read_schedstat(record, tick, thread) == LIVES;
    thread->question.pid = record->pid;
    return thread->lives && record->thread_wanted && !thread->still && tick->netlink >= 0
           && record->files[STATUS] != ABSENT;
}

static int end_process(Record *record, const Tick *tick, Row row, char *text, const Thread *thread)
{
    const double scale[] = {tick->per_second * 1e-9, tick->per_second, tick->per_second};
    Number new[COUNT(THREAD_COUNTERS)];
    int found = 1;
    if (!thread->lives)
        return GONE;
    if (!record->thread_wanted)
        return LIVES;
    if (thread->still)
        memcpy(new, record->thread, sizeof new);
    else
        found = find_thread(record, tick, row, thread, text, new);
    if (!found)
        return GONE;
    if (found < 0) {
        mark(record, row, THREAD_COUNTERS, COUNT(THREAD_COUNTERS), UNREADABLE);
        record->has_thread = 0;
        return LIVES;
    }
    record->ran = (uint8_t)grow(record, row, THREAD_COUNTERS, COUNT(THREAD_COUNTERS), record->thread, new,
                                &record->has_thread, 0, scale);
    return LIVES;
}

/* Read at most GROUP processes; ``gone`` is set for each that is gone. */
static void read_group(Record *records, const Tick *tick, const Row *rows, int count, uint8_t *gone)
{
    char text[LONG];
    Thread threads[GROUP];
    Question questions[GROUP];
    int asked[GROUP], asks = 0;
    for (int i = 0; i < count; i++)
        if (begin_process(&records[i], tick, rows[i], text, &threads[i])) {
            asked[asks] = i;
            questions[asks++] = threads[i].question;
        }
    ask_taskstats(tick, questions, asks);
    for (int i = 0; i < asks; i++)
        threads[asked[i]].question = questions[i];
    for (int i = 0; i < count; i++)
        gone[i] = end_process(&records[i], tick, rows[i], text, &threads[i]) == GONE;
}
