/* Reads the host's own figures in one call: those of the groups in probes.figures.host_figures, network and pressure,
   and, if there are none, hugepages. These stay the definition, tested equal (tests/probes/figures/test_host_step.py).
   See _process_step.c, which includes this. */

/* probes.figures.agreed.HOST_FIGURES: names of probes.metrics.HOST */
#define HOST_FIGURES(DO) \
    DO(CPU_USER, "cpu_user_ratio") DO(CPU_SYSTEM, "cpu_system_ratio") DO(CPU_IDLE, "cpu_idle_ratio") \
    DO(CPU_IOWAIT, "cpu_iowait_ratio") DO(CPU_STEAL, "cpu_steal_ratio") DO(CPU_GUEST, "cpu_guest_ratio") \
    DO(INTERRUPTS, "interrupts_per_second") DO(SWITCHES, "context_switches_per_second") \
    DO(RUNNABLE, "tasks_runnable") DO(BLOCKED, "tasks_blocked") DO(CPUS, "cpu_count") \
    DO(WORST_CORE, "cpu_worst_core_ratio") DO(CORE_SPREAD, "cpu_core_spread_ratio") \
    DO(SWAP_USED, "swap_used_bytes") DO(FREE, "memory_free_bytes") DO(BUFFERS, "memory_buffers_bytes") \
    DO(CACHE, "memory_cache_bytes") DO(TOTAL, "memory_total_bytes") DO(AVAILABLE, "memory_available_bytes") \
    DO(SWAP_IN, "swap_in_bytes_per_second") DO(SWAP_OUT, "swap_out_bytes_per_second") \
    DO(BLOCK_IN, "block_in_bytes_per_second") DO(BLOCK_OUT, "block_out_bytes_per_second") \
    DO(RECEIVED, "network_receive_bytes_per_second") DO(SENT, "network_transmit_bytes_per_second") \
    DO(LINK_SPEED, "link_speed_bytes_per_second") DO(CPU_SOME, "pressure_cpu_some_ratio") \
    DO(MEMORY_SOME, "pressure_memory_some_ratio") DO(MEMORY_FULL, "pressure_memory_full_ratio") \
    DO(IO_SOME, "pressure_io_some_ratio") DO(IO_FULL, "pressure_io_full_ratio") \
    DO(HUGE_TOTAL, "hugepages_total_bytes") DO(HUGE_AVAILABLE, "hugepages_available_bytes") \
    DO(HUGE_2M_TOTAL, "hugepages_2m_total_bytes") DO(HUGE_2M_FREE, "hugepages_2m_free_bytes") \
    DO(HUGE_2M_RESERVED, "hugepages_2m_reserved_bytes") DO(HUGE_1G_TOTAL, "hugepages_1g_total_bytes") \
    DO(HUGE_1G_FREE, "hugepages_1g_free_bytes") DO(HUGE_1G_RESERVED, "hugepages_1g_reserved_bytes")
/* probes.figures.agreed.HOST_GROUPS */
#define FILES_OF_HOST(DO) \
    DO(HOST_STAT, "stat") DO(HOST_MEMORY, "meminfo") DO(HOST_PAGING, "vmstat") DO(HOST_TRAFFIC, "net/dev") \
    DO(PRESSURE_CPU, "pressure/cpu") DO(PRESSURE_MEMORY, "pressure/memory") DO(PRESSURE_IO, "pressure/io")
enum { HOST_FIGURES(AS_PLACE) FIGURES };
enum { FILES_OF_HOST(AS_PLACE) HOST_FILES };
enum { CPU_SHARES = CPU_GUEST + 1 }; /* the first ones */
enum { CPU_JITTER = 100, MOST_CPUS = 8192, MOST_CORES = 1024, NUMBER_WITHIN = 48, NAME_BYTES = 32, CPU_FIELDS = 10 };
#define KIB 1024.0
#define ALL_TICKS 1.4
#define TOLERANCE 0.05

typedef struct {
    uint64_t value, has;
} Counter;

/* Ticks of one core: all, and those without work. */
typedef struct {
    Number idle, all;
} Core;

/* Values of the previous tick. Counters are at the number of their figure. */
typedef struct {
    Number ticks[CPU_SHARES];
    Counter counters[FIGURES];
    Core cores[MOST_CORES];
    uint64_t has_ticks, cpus;
} HostRecord;

/* An interface counted for the host; probes.figures.agreed.LINK. */
typedef struct {
    char name[NAME_BYTES];
    double most;
    uint64_t bytes[2], has;
} Link;

typedef struct {
    double seconds, longest, hertz; /* longest: probes.checks.rate.growth(seconds) */
    double values[FIGURES];
    uint8_t codes[FIGURES];
} Figures;

/* A text with a line feed before it, as labels begin with one. */
typedef struct {
    char *start, *end; /* the first byte of the file, and one past the last */
    char *grown;       /* to be freed */
    char kept[1 << 14];
} Text;

static void put(Figures *out, int figure, double value)
{
    out->values[figure] = value;
    out->codes[figure] = VALID;
}

static void put_code(Figures *out, int figure, uint8_t code)
{
    out->values[figure] = NAN;
    out->codes[figure] = code;
}

/* probes.figures.row.CounterMemory.rate; a NULL ``new`` is missing. */
static void put_rate(Figures *out, int figure, Counter *old, const uint64_t *new, double scale)
{
    uint64_t before = old->value, had = old->has;
    old->has = new != NULL;
    if (!new) {
        put_code(out, figure, MISSING);
        return;
    }
    old->value = *new;
    if (!had || !(out->seconds > 0))
        put_code(out, figure, FIRST);
    else if (*new < before)
        put_code(out, figure, RESET);
    else
        put(out, figure, (double)(*new - before) / out->seconds * scale);
}

/* The whole text of the file; empty if it cannot be read. */
static void read_text(int descriptor, Text *text)
{
    char *data = text->kept;
    size_t room = sizeof text->kept, size = 1;
    text->grown = NULL;
    data[0] = '\n';
    for (;;) {
        ssize_t more = descriptor < 0 ? -1 : pread(descriptor, data + size, room - size, (off_t)size - 1);
        if (more < 0)
            size = 1;
        if (more <= 0)
            break;
        size += (size_t)more;
        if (size == room) {
            char *larger = realloc(text->grown, 2 * room);
            if (!larger) {
                size = 1;
                break;
            }
            if (!text->grown)
                memcpy(larger, data, size);
            data = text->grown = larger;
            room *= 2;
        }
    }
    text->start = data + 1;
    text->end = data + size;
}

/* probes.sampling.procfs.number_after, searched from ``from`` on. */
static const uint64_t *number_after(const char *from, const char *end, const char *label, uint64_t *found)
{
    size_t size = strlen(label), length;
    const char *at = memmem(from, (size_t)(end - from), label, size);
    if (!at)
        return NULL;
    at += size;
    if (end - at > NUMBER_WITHIN)
        end = at + NUMBER_WITHIN;
    const char *word = next_word(&at, end, &length);
    return whole_of(word, length, found) ? found : NULL;
}

#include "_host_cpu.h"

/* Memory: /proc/meminfo */

static void put_difference(Figures *out, int figure, const uint64_t *whole, const uint64_t *part)
{
    if (whole && part)
        put(out, figure, as_double((Number)*whole - (Number)*part) * KIB);
}

static void read_memory(Figures *out, const Text *text)
{
    static const struct {
        int figure;
        const char *label;
    } gauges[] = {{TOTAL, "\nMemTotal:"}, {FREE, "\nMemFree:"}, {AVAILABLE, "\nMemAvailable:"}, {BUFFERS, "\nBuffers:"}};
    const char *start = text->start - 1, *end = text->end;
    uint64_t one, two = 0;
    for (size_t i = 0; i < COUNT(gauges); i++)
        if (number_after(start, end, gauges[i].label, &one))
            put(out, gauges[i].figure, (double)one * KIB);
    if (number_after(start, end, "\nCached:", &one)) {
        if (!number_after(start, end, "\nSReclaimable:", &two))
            two = 0;
        put(out, CACHE, as_double((Number)one + (Number)two) * KIB);
    }
    const uint64_t *swap = number_after(start, end, "\nSwapTotal:", &one);
    put_difference(out, SWAP_USED, swap, number_after(start, end, "\nSwapFree:", &two));
    if (number_after(start, end, "\nHugetlb:", &one) && one == 0)
        for (int figure = HUGE_TOTAL; figure <= HUGE_1G_RESERVED; figure++)
            put(out, figure, 0.0);
}

/* Paging: /proc/vmstat */

static void read_paging(Figures *out, HostRecord *record, const Text *text, double page_size)
{
    const struct {
        int figure;
        const char *label;
        double scale;
    } rates[] = {{SWAP_IN, "\npswpin ", page_size}, {SWAP_OUT, "\npswpout ", page_size},
                 {BLOCK_IN, "\npgpgin ", KIB}, {BLOCK_OUT, "\npgpgout ", KIB}};
    for (size_t i = 0; i < COUNT(rates); i++) {
        uint64_t number;
        const uint64_t *found = number_after(text->start, text->end, rates[i].label, &number);
        put_rate(out, rates[i].figure, &record->counters[rates[i].figure], found, rates[i].scale);
    }
}

/* Network: /proc/net/dev */

typedef struct {
    uint64_t bytes[2];
    int found;
} Seen;

/* One line of probes.figures.network.parse. */
static void see_line(const char *at, const char *end, const Link *links, size_t count, Seen *seen)
{
    const char *colon = memrchr(at, ':', (size_t)(end - at));
    uint64_t bytes[2] = {0, 0};
    size_t length, width;
    if (!colon)
        return;
    while (at < colon && is_space(*at))
        at++;
    const char *name = at;
    for (at = colon; at > name && is_space(at[-1]);)
        at--;
    width = (size_t)(at - name);
    at = colon + 1;
    for (int i = 0; i < 9; i++) {
        const char *word = next_word(&at, end, &length);
        if (!word || (i == 0 && !whole_of(word, length, &bytes[0])) || (i == 8 && !whole_of(word, length, &bytes[1])))
            return;
    }
    for (size_t i = 0; i < count; i++)
        if (width < NAME_BYTES && strnlen(links[i].name, NAME_BYTES) == width && !memcmp(links[i].name, name, width))
            seen[i] = (Seen){{bytes[0], bytes[1]}, 1};
}

static void put_sum(Figures *out, int figure, int way, const Link *links, size_t count, const Seen *seen)
{
    double sum = 0.0;
    int any = 0, first = 0, reset = 0, jumped = 0;
    for (size_t i = 0; i < count; i++) {
        if (!seen[i].found)
            continue;
        if (!links[i].has || !(out->seconds > 0))
            first = 1;
        else if (seen[i].bytes[way] < links[i].bytes[way])
            reset = 1;
        else {
            double grown = (double)(seen[i].bytes[way] - links[i].bytes[way]);
            any = 1;
            jumped |= grown > links[i].most * out->longest;
            sum += grown / out->seconds;
        }
    }
    if (any && !reset) {
        put(out, figure, sum);
        out->codes[figure] = jumped ? RATE : VALID;
    } else
        put_code(out, figure, reset ? RESET : first ? FIRST : MISSING);
}

static int read_traffic(Figures *out, Link *links, size_t count, const Text *text)
{
    Seen *seen = calloc(count + 1, sizeof *seen);
    if (!seen)
        return 0;
    for (const char *at = text->start, *stop; at < text->end; at = stop + 1) {
        for (stop = at; stop < text->end && *stop != '\n' && *stop != '\r';)
            stop++;
        see_line(at, stop, links, count, seen);
    }
    put_sum(out, RECEIVED, 0, links, count, seen);
    put_sum(out, SENT, 1, links, count, seen);
    for (size_t i = 0; i < count; i++) {
        links[i].has = (uint64_t)seen[i].found;
        memcpy(links[i].bytes, seen[i].bytes, sizeof links[i].bytes);
    }
    free(seen);
    return 1;
}

/* Pressure: /proc/pressure */

/* Total of the last line that begins with ``kind`` and has one: probes.figures.pressure.parse. */
static const uint64_t *stalled(const Text *text, const char *kind, uint64_t *found)
{
    static const char label[] = "total=";
    size_t width = strlen(kind), size = sizeof label - 1;
    const uint64_t *answer = NULL;
    for (const char *at = text->start, *stop; at < text->end; at = stop + 1) {
        uint64_t number;
        for (stop = at; stop < text->end && *stop != '\n' && *stop != '\r';)
            stop++;
        if ((size_t)(stop - at) <= width || memcmp(at, kind, width) || at[width] != ' ')
            continue;
        const char *rest = at + width + 1, *last = rest, *next;
        while ((next = memmem(last, (size_t)(stop - last), label, size)))
            last = next + size;
        if (whole_of(last, (size_t)(stop - last), &number)) {
            *found = number;
            answer = found;
        }
    }
    return answer;
}

static void read_pressure(Figures *out, HostRecord *record, const Text *text, int file)
{
    static const struct {
        int file, figure;
        const char *kind;
    } lines[] = {{PRESSURE_CPU, CPU_SOME, "some"}, {PRESSURE_MEMORY, MEMORY_SOME, "some"},
                 {PRESSURE_MEMORY, MEMORY_FULL, "full"}, {PRESSURE_IO, IO_SOME, "some"}, {PRESSURE_IO, IO_FULL, "full"}};
    for (size_t i = 0; i < COUNT(lines); i++) {
        uint64_t number;
        int figure = lines[i].figure;
        if (lines[i].file == file)
            put_rate(out, figure, &record->counters[figure], stalled(text, lines[i].kind, &number), 1e-6);
    }
}

static int read_host_file(int file, int descriptor, Figures *out, HostRecord *record, Link *links, size_t count,
                          double page_size)
{
    Text text;
    int done = 1;
    read_text(descriptor, &text);
    if (file == HOST_STAT)
        read_cpu(out, record, &text);
    else if (file == HOST_MEMORY)
        read_memory(out, &text);
    else if (file == HOST_PAGING)
        read_paging(out, record, &text, page_size);
    else if (file == HOST_TRAFFIC)
        done = read_traffic(out, links, count, &text);
    else
        read_pressure(out, record, &text, file);
    free(text.grown);
    return done;
}
