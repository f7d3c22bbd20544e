// How fast threads read memory: loops over a buffer that the caches hold, or do not.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/limits.h"

namespace pyrite {

namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t(2) << 20;
constexpr size_t kLeastRead = size_t(32) << 20;  // by a thread in a round, at least
constexpr double kBudgetSeconds = 0.15;          // of each loop

// Memory of this process alone, untouched, in huge pages where the system gives them.
class Pages {
 public:
  explicit Pages(size_t bytes) : size_(bytes + kHugePage) {
    mapped_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    madvise(mapped_, size_, MADV_HUGEPAGE);
#endif
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(mapped_, size_); }

  // At the start of a huge page.
  uint8_t* data() const {
    void* start = mapped_;
    size_t space = size_;
    return static_cast<uint8_t*>(std::align(kHugePage, size_ - kHugePage, start, space));
  }

 private:
  size_t size_;
  void* mapped_;
};

// 16 bytes: every processor here loads at least two of these a cycle, far more than a cache beyond
// the first gives.
typedef uint64_t Vector __attribute__((vector_size(16), may_alias));

// Loads each line of [data, data + bytes) once. The bytes are cut into as many parts as there are
// streams, which are read side by side: hardware looks ahead in several pages at once.
template <int kStreams, size_t kAhead>
void read_lines(const uint8_t* data, size_t bytes) {
  const size_t part = bytes / kStreams / kLine * kLine;
  for (size_t i = 0; i < part; i += kLine) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const uint8_t* line = data + stream * part + i;
      if (kAhead > 0) __builtin_prefetch(line + kAhead);
      for (size_t v = 0; v < kLine; v += sizeof(Vector)) {
        const Vector value = *reinterpret_cast<const Vector*>(line + v);
#if defined(__x86_64__)
        asm volatile("" : : "x"(value));  // so the load is made
#else
        asm volatile("" : : "w"(value));
#endif
      }
    }
  }
}

struct Way {
  const char* name;
  void (*read)(const uint8_t* data, size_t bytes);
};

constexpr Way kWays[] = {
    {"one stream", read_lines<1, 0>},
    {"one stream, prefetched 4 KiB ahead", read_lines<1, 4096>},
    {"one stream, prefetched 12 KiB ahead", read_lines<1, 12288>},
    {"four streams", read_lines<4, 0>},
    {"four streams, prefetched 4 KiB ahead", read_lines<4, 4096>},
};

}  // namespace

ReadSpeed read_bandwidth(int num_threads, size_t bytes) {
  const size_t part = std::max(bytes / num_threads / kLine * kLine, kLine);
  const size_t passes = (kLeastRead + part - 1) / part;
  const Pages pages(part * num_threads);
  const auto part_of = [&](int thread) { return pages.data() + part * thread; };
  best_seconds(num_threads, 0, [&](int thread) { std::memset(part_of(thread), 1, part); });
  ReadSpeed best{};
  for (const Way& way : kWays) {
    const double seconds = best_seconds(num_threads, kBudgetSeconds, [&](int thread) {
      for (size_t pass = 0; pass < passes; ++pass) way.read(part_of(thread), part);
    });
    const double speed = double(part) * passes * num_threads / seconds;
    if (speed > best.bytes_per_second) best = {speed, way.name};
  }
  return best;
}

}  // namespace pyrite
