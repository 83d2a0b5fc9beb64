/** @file
 * Write JPEG files to train on: colour and grey, progressive, of inks, and one that ends early.
 *
 * Usage: make_pictures FOLDER SMALLEST LARGEST; sides in pixels.  Four classes of 24 files.
 */

#include <sys/stat.h>

#include "tests/exec/input/fixture.h"

enum { CLASSES = 4, EACH = 24, BROKEN = 37 };

static void write_picture(const char *path, int32_t number, int32_t smallest, int32_t largest)
{
    int32_t sides = largest - smallest + 1;
    struct form form = {.width = smallest + number * 7 % sides,
                        .height = smallest + number * 11 % sides,
                        .components = number % 7 == 1    ? 1
                                      : number % 11 == 5 ? 4
                                                         : 3,
                        .subsampling = 1 + number % 2,
                        .quality = 85,
                        .progressive = number % 5 == 3,
                        .seed = (uint32_t)number};
    int64_t size;
    uint8_t *data = fixture_jpeg(&form, &size);
    fixture_write(path, data, number == BROKEN ? size / 2 : size);
    free(data);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 64;
    for (int32_t i = 0; i < CLASSES * EACH; i++) {
        char *folder = base_format("%s/%d", argv[1], i % CLASSES);
        char *path = base_format("%s/%d.jpg", folder, i);
        mkdir(folder, 0777);
        write_picture(path, i, atoi(argv[2]), atoi(argv[3]));
        free(path);
        free(folder);
    }
    return 0;
}
