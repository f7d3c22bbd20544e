#pragma once
#include <cstddef>

namespace pyrite {

// Maps the pages of some memory beside the caller, who finds them in place when they are read: the
// first step of a program would otherwise stop for each of them. A hint: it may fail unnoticed, and
// the memory may be unmapped meanwhile. Reads the file behind a map that is not in memory yet.
void populate(const void* data, size_t bytes);

}  // namespace pyrite
