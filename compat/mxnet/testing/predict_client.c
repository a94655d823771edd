/* A program in C that loads the library alone, as programs for MXNet's c_predict_api do: it makes a
 * network and parameters, predicts, and unloads the library. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mxnet/c_api.h"
#include "mxnet/c_predict_api.h"

/* Declares a pointer to a function of the library, and finds it. */
#define FIND(function) __typeof__(&(function)) const function##_ = find(library, #function)

static void* find(void* library, const char* name) {
  void* const function = dlsym(library, name);
  if (function == NULL) {
    fprintf(stderr, "there is no %s: %s\n", name, dlerror());
    exit(1);
  }
  return function;
}

static const char* (*last_error)(void);

/* Ends the program with the library's message unless a function has returned 0. */
static void check(int status, const char* call) {
  if (status == 0) return;
  fprintf(stderr, "%s: %s\n", call, last_error());
  exit(1);
}
#define CHECK(call) check((call), #call)

static void expect(int holds, const char* condition) {
  if (holds) return;
  fprintf(stderr, "not true: %s\n", condition);
  exit(1);
}
#define EXPECT(condition) expect((condition), #condition)

static const char kNetwork[] =
    "{\"nodes\": ["
    "{\"op\": \"null\", \"name\": \"data\", \"inputs\": []},"
    "{\"op\": \"null\", \"name\": \"fc_weight\", \"inputs\": []},"
    "{\"op\": \"null\", \"name\": \"fc_bias\", \"inputs\": []},"
    "{\"op\": \"FullyConnected\", \"name\": \"fc\", \"attrs\": {\"num_hidden\": \"2\"},"
    " \"inputs\": [[0, 0, 0], [1, 0, 0], [2, 0, 0]]},"
    "{\"op\": \"softmax\", \"name\": \"softmax\", \"inputs\": [[3, 0, 0]]}],"
    "\"arg_nodes\": [0, 1, 2], \"heads\": [[4, 0, 0]],"
    "\"attrs\": {\"mxnet_version\": [\"int\", 10901]}}";

/* Writes the parameters to a file, and returns its bytes. */
static char* make_parameters(void* library, size_t* size) {
  FIND(MXNDArrayCreateEx);
  FIND(MXNDArraySyncCopyFromCPU);
  FIND(MXNDArraySave);
  FIND(MXNDArrayFree);
  const uint32_t weight_shape[] = {2, 3}, bias_shape[] = {2};
  const float weight[] = {1, 2, 3, 3, 2, 1}, bias[] = {0.5f, -0.5f};
  const char* names[] = {"arg:fc_weight", "arg:fc_bias"};
  NDArrayHandle arrays[2];
  char path[4096];
  const char* const folder = getenv("TEST_TMPDIR");
  snprintf(path, sizeof(path), "%s/predict_client.params", folder == NULL ? "/tmp" : folder);
  CHECK(MXNDArrayCreateEx_(weight_shape, 2, 1, 0, 0, 0, &arrays[0]));
  CHECK(MXNDArrayCreateEx_(bias_shape, 1, 1, 0, 0, 0, &arrays[1]));
  CHECK(MXNDArraySyncCopyFromCPU_(arrays[0], weight, 6));
  CHECK(MXNDArraySyncCopyFromCPU_(arrays[1], bias, 2));
  CHECK(MXNDArraySave_(path, 2, arrays, names));
  CHECK(MXNDArrayFree_(arrays[0]));
  CHECK(MXNDArrayFree_(arrays[1]));

  FILE* const file = fopen(path, "rb");
  EXPECT(file != NULL);
  char* const bytes = malloc(1 << 16);
  *size = fread(bytes, 1, 1 << 16, file);
  fclose(file);
  remove(path);
  return bytes;
}

static void predict(void* library) {
  FIND(MXPredCreate);
  FIND(MXPredSetInput);
  FIND(MXPredForward);
  FIND(MXPredGetOutputShape);
  FIND(MXPredGetOutput);
  FIND(MXPredFree);
  size_t size = 0;
  char* const parameters = make_parameters(library, &size);
  const char* names[] = {"data"};
  const uint32_t offsets[] = {0, 2}, extents[] = {1, 3};
  PredictorHandle predictor = NULL;
  CHECK(
      MXPredCreate_(kNetwork, parameters, (int)size, 1, 0, 1, names, offsets, extents, &predictor));
  free(parameters);

  const float input[] = {0.1f, 0.2f, 0.3f};
  CHECK(MXPredSetInput_(predictor, "data", input, 3));
  CHECK(MXPredForward_(predictor));
  uint32_t* shape = NULL;
  uint32_t rank = 0;
  CHECK(MXPredGetOutputShape_(predictor, 0, &shape, &rank));
  EXPECT(rank == 2 && shape[0] == 1 && shape[1] == 2);
  float output[2] = {0, 0};
  CHECK(MXPredGetOutput_(predictor, 0, output, 2));
  const double a = exp(0.1 * 1 + 0.2 * 2 + 0.3 * 3 + 0.5);
  const double b = exp(0.1 * 3 + 0.2 * 2 + 0.3 * 1 - 0.5);
  EXPECT(fabs(output[0] - a / (a + b)) < 1e-6);
  EXPECT(fabs(output[1] - b / (a + b)) < 1e-6);

  EXPECT(MXPredGetOutput_(predictor, 0, output, 3) == -1);
  EXPECT(strstr(last_error(), "output 0") != NULL);
  CHECK(MXPredFree_(predictor));
  EXPECT(MXPredForward_(predictor) == -1);
}

int main(int argc, char** argv) {
  const char* const path = argc > 1 ? argv[1] : "compat/mxnet/libtessera_mxnet.so";
  /* What was loaded and unloaded may be loaded again. */
  for (int i = 0; i < 2; ++i) {
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    last_error = (__typeof__(&MXGetLastError))find(library, "MXGetLastError");
    predict(library);
    /* RTLD_LOCAL: the program itself sees no function of the library. */
    EXPECT(dlsym(RTLD_DEFAULT, "MXPredCreate") == NULL);
    EXPECT(dlclose(library) == 0);
  }
  return 0;
}
