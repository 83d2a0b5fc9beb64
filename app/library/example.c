/* Predicts a job on more and more nodes.  Once foretrain is installed:
 *     cc example.c $(pkg-config --cflags --libs foretrain) && ./a.out job.yaml */
#include <stdio.h>
#include <stdlib.h>

#include <foretrain.h>

int main(int argc, char **argv)
{
    for (int nodes = 1; nodes <= 4; nodes *= 2) {
        char set[32];
        snprintf(set, sizeof(set), "cluster.nodes=%d", nodes);
        struct foretrain_error error = {0};
        struct foretrain_job *job = foretrain_job_open(argc > 1 ? argv[1] : "job.yaml");
        foretrain_job_set(job, set);
        struct foretrain_answer *answer = foretrain_predict(job, NULL, &error);
        foretrain_job_free(job);
        if (!answer) {
            fprintf(stderr, "%s", error.text);
            int code = error.code;
            foretrain_error_release(&error);
            return code;
        }
        puts(foretrain_answer_json(answer));
        foretrain_answer_free(answer);
    }
    return EXIT_SUCCESS;
}
