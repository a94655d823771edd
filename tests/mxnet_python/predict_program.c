// A program that serves a network through the predict API, which it loads when it runs:
// predict_program LIBRARY GRAPH PARAMETERS IMAGE EXTENT... prints the first output.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void* Predictor;

static void* library;
static const char* (*last_error)(void);

static void* Find(const char* name) {
  void* const found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "the library has no %s\n", name);
    exit(1);
  }
  return found;
}

static void Check(int status) {
  if (status == 0) return;
  fprintf(stderr, "%s\n", last_error());
  exit(1);
}

static char* Contents(const char* path, long* size) {
  FILE* const file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  *size = ftell(file);
  rewind(file);
  char* const bytes = calloc(1, *size + 1);
  if (bytes == NULL || fread(bytes, 1, *size, file) != (size_t)*size) {
    perror(path);
    exit(1);
  }
  fclose(file);
  return bytes;
}

int main(int count, char** arguments) {
  enum { kFirstExtent = 5, kMaxRank = 8, kCpu = 1 };
  if (count <= kFirstExtent || count > kFirstExtent + kMaxRank) {
    fprintf(stderr, "usage: predict_program LIBRARY GRAPH PARAMETERS IMAGE EXTENT...\n");
    return 2;
  }
  library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  last_error = Find("MXGetLastError");
  int (*create)(const char*, const void*, int, int, int, uint32_t, const char**, const uint32_t*,
                const uint32_t*, Predictor*) = Find("MXPredCreate");
  int (*set_input)(Predictor, const char*, const float*, uint32_t) = Find("MXPredSetInput");
  int (*forward)(Predictor) = Find("MXPredForward");
  int (*shape_of)(Predictor, uint32_t, uint32_t**, uint32_t*) = Find("MXPredGetOutputShape");
  int (*output)(Predictor, uint32_t, float*, uint32_t) = Find("MXPredGetOutput");
  int (*release)(Predictor) = Find("MXPredFree");

  long graph_size, parameters_size, image_size;
  char* const graph = Contents(arguments[2], &graph_size);
  char* const parameters = Contents(arguments[3], &parameters_size);
  char* const image = Contents(arguments[4], &image_size);
  const char* input = "data";
  uint32_t shape[kMaxRank];
  const uint32_t ends[2] = {0, (uint32_t)(count - kFirstExtent)};
  for (int i = kFirstExtent; i < count; ++i) shape[i - kFirstExtent] = (uint32_t)atoi(arguments[i]);

  Predictor predictor;
  Check(
      create(graph, parameters, (int)parameters_size, kCpu, 0, 1, &input, ends, shape, &predictor));
  Check(set_input(predictor, input, (const float*)image, (uint32_t)(image_size / sizeof(float))));
  Check(forward(predictor));
  uint32_t *extents, rank, size = 1;
  Check(shape_of(predictor, 0, &extents, &rank));
  for (uint32_t i = 0; i < rank; ++i) size *= extents[i];
  float* const values = calloc(size, sizeof(float));
  Check(output(predictor, 0, values, size));
  for (uint32_t i = 0; i < size; ++i) printf("%.6g\n", values[i]);
  Check(release(predictor));
  free(values);
  free(graph);
  free(parameters);
  free(image);
  return 0;
}
