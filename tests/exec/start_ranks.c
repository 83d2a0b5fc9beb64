/** @file
 * Start a program on some ranks of this machine, as foretrain-exec starts itself where there is no
 * mpirun: start_ranks N PROGRAM [ARGUMENT...].
 */

#include <stdio.h>
#include <stdlib.h>

#include "app/start.h"

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: start_ranks N PROGRAM [ARGUMENT...]\n");
        return 64;
    }
    return start_ranks(atoi(argv[1]), argv + 2);
}
