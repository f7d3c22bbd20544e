#pragma once
// One member's share of a phase: a run of adjacent chunks, taken one by one in ascending order, by its
// owner first and then by whoever is done with his own. The word carries the phase's number, so that
// nobody has to deal shares out: whoever comes first to the share of an earlier phase starts it anew.

#include <atomic>
#include <cstdint>

namespace pyrite {

class alignas(64) Share {
 public:
  static constexpr int kNone = -1;

  // Only between steps, with the number of a phase that is over. Numbers wrap and are compared by
  // their distance: a share that nobody touched for long must not seem to be of a later phase.
  void reset(uint32_t phase) { word_.store(word(phase, 0), std::memory_order_relaxed); }

  // The next chunk of [first, end), which is this share in that phase; kNone when all are taken. A
  // phase is over when all its chunks are finished, and then every share that has chunks carries its
  // number or a later one, with all of them taken: a member that was held back gets none of it.
  int take(uint32_t phase, int first, int end) {
    if (first == end) return kNone;
    uint64_t seen = word_.load(std::memory_order_relaxed);
    while (true) {
      const int32_t age = int32_t(phase - uint32_t(seen >> 32));
      const int next = age > 0 ? first : int(uint32_t(seen));
      if (age < 0 || next == end) return kNone;
      if (word_.compare_exchange_weak(seen, word(phase, next + 1), std::memory_order_relaxed)) {
        return next;
      }
    }
  }

 private:
  static uint64_t word(uint32_t phase, int next) { return uint64_t(phase) << 32 | uint32_t(next); }

  std::atomic<uint64_t> word_{0};
};

}  // namespace pyrite
