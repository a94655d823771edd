/* Prints the version of MXNet's interface. */
#include <stdio.h>

int MXGetVersion(int* out);

int main(void) {
  int version = 0;
  if (MXGetVersion(&version) != 0) return 1;
  printf("%d\n", version);
  return 0;
}
