/* A qemu with two vCPUs as seen by a probe: threads with its names that run briefly once a second.

   It ends with its standard input. */

#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

static void *vcpu(void *name)
{
    pthread_setname_np(pthread_self(), name);
    for (;;)
        sleep(1);
}

int main(void)
{
    static char names[][16] = {"CPU 0/KVM", "CPU 1/KVM"};
    pthread_t threads[2];
    char byte;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, vcpu, names[i]))
            return 1;
    return read(0, &byte, 1) < 0;
}
