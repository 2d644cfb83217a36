/* Context switches and waiting time of first threads by taskstats, several at once; see probes.figures.taskstats for
   single requests. See _process_reading.h, which includes this.

   The kernel answers each request of a message as it accepts it. Eight at once: data of a process just touched for
   stat and io are still in the cache, and of sixteen system calls two are left. */

#define GROUP 8

/* Common to all processes of a tick. */
typedef struct {
    const char *proc;
    double per_second, per_tick, page_size, memory_bytes;
    double thread_cores; /* maximum of cores per thread */
    int netlink, family; /* of taskstats; -1: there is none */
    Py_ssize_t at;       /* of struct taskstats in an answer */
} Tick;

/* A question and its answer. */
typedef struct {
    int32_t pid;
    int answered;
    Number figures[3]; /* nanoseconds of waiting, voluntary and involuntary switches */
} Question;

/* Store an answer with the request for its process; any other message is an error: a thread is gone. */
static void take_answer(const char *answer, size_t size, Py_ssize_t at, Question *questions, int count)
{
    enum { WAITED = 24, WHO = 128, SWITCHED = 272, SIZE = 288 }; /* offsets in struct taskstats */
    uint64_t figures[2], waited;
    uint32_t who;
    if (size < (size_t)at + SIZE)
        return;
    memcpy(&waited, answer + at + WAITED, sizeof waited);
    memcpy(&who, answer + at + WHO, sizeof who);
    memcpy(figures, answer + at + SWITCHED, sizeof figures);
    for (int i = 0; i < count; i++)
        if ((uint32_t)questions[i].pid == who) {
            questions[i].answered = 1;
            questions[i].figures[0] = waited;
            questions[i].figures[1] = figures[0];
            questions[i].figures[2] = figures[1];
        }
}

/* Send at most GROUP requests; unanswered ones stay so. */
static void ask_taskstats(const Tick *tick, Question *questions, int count)
{
    enum { MOST_ANSWER = 1024 }; /* struct taskstats has 424 bytes in Linux 6.1 */
    struct {
        uint32_t length;
        uint16_t type, flags;
        uint32_t sequence, port;
        uint8_t command, version;
        uint16_t reserved, attribute_length, attribute;
        uint32_t pid;
    } requests[GROUP];
    char answers[GROUP][MOST_ANSWER];
    struct iovec places[GROUP];
    struct mmsghdr messages[GROUP];
    for (int i = 0; i < count; i++) {
        requests[i] = (typeof(requests[0])){sizeof requests[0], (uint16_t)tick->family, 1, 0, 0, 1, 1, 0, 8, 1,
                                            (uint32_t)questions[i].pid};
        places[i] = (struct iovec){answers[i], MOST_ANSWER};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &places[i], .msg_iovlen = 1}};
    }
    if (!count || send(tick->netlink, requests, (size_t)count * sizeof requests[0], 0) < 0)
        return;
    for (int left = count; left > 0;) {
        int come = recvmmsg(tick->netlink, messages, (unsigned)left, MSG_DONTWAIT, NULL);
        if (come <= 0)
            return;
        for (int i = 0; i < come; i++)
            take_answer(answers[i], messages[i].msg_len, tick->at, questions, count);
        left -= come;
    }
}
