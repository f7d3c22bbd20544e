#pragma once
// The one assertion of the native tests: says where and what, then ends the program with 1.

#include <cstdio>
#include <cstdlib>

#define CHECK(holds)                                                    \
  do {                                                                  \
    if (!(holds)) {                                                     \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds);  \
      std::exit(1);                                                     \
    }                                                                   \
  } while (false)
