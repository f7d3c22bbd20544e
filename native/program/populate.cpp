#include "program/populate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <thread>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; an older kernel refuses it
#endif

namespace pyrite {

namespace {

constexpr size_t kSlice = size_t(8) << 20;  // a short one, so that an interrupt is not kept waiting

void populate_slices(uintptr_t first, uintptr_t last) {
  for (uintptr_t at = first; at < last; at += kSlice) {
    const size_t bytes = last - at < kSlice ? last - at : kSlice;
    if (madvise(reinterpret_cast<void*>(at), bytes, MADV_POPULATE_READ) != 0) return;
  }
}

}  // namespace

void populate(const void* data, size_t bytes) {
  const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
  const uintptr_t start = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = start / page * page;
  try {
    std::thread(populate_slices, first, start + bytes).detach();
  } catch (const std::system_error&) {
  }
}

}  // namespace pyrite
