#pragma once
// The chunks of one phase of a step, taken by whoever is free. Both words carry the step's epoch, so
// that a member of the team that the system held back through the end of a step finds an epoch that
// is not its own and leaves, instead of taking a chunk of the next step.

#include <atomic>
#include <cstdint>

#include "program/pause.h"

namespace pyrite {

class alignas(64) Tickets {
 public:
  enum : int { kNone = -1, kStale = -2 };

  // Only between steps: every chunk of the last epoch is finished.
  void reset(uint32_t epoch, int chunks) {
    total_ = chunks;
    unfinished_.store(word(epoch, chunks), std::memory_order_relaxed);
    untaken_.store(word(epoch, chunks), std::memory_order_release);
  }

  // The next chunk in ascending order; kNone when all are taken, kStale when the step is over.
  int take(uint32_t epoch) {
    uint64_t seen = untaken_.load(std::memory_order_acquire);
    while (true) {
      if (uint32_t(seen >> 32) != epoch) return kStale;
      if (uint32_t(seen) == 0) return kNone;
      if (untaken_.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
        return total_ - int(uint32_t(seen));
      }
    }
  }

  // A taken chunk is done. The last one wakes whoever parked in wait().
  void finish() {
    uint64_t before = unfinished_.fetch_sub(1, std::memory_order_acq_rel);
    if (uint32_t(before) == 1) unfinished_.notify_all();
  }

  // Returns true when every chunk is finished, false when the step is over. Completion does not ask
  // for every member to arrive: a member without a chunk holds nobody back.
  bool wait(uint32_t epoch, int spins) {
    for (int round = 0;; ++round) {
      uint64_t seen = unfinished_.load(std::memory_order_acquire);
      if (uint32_t(seen >> 32) != epoch) return false;
      if (uint32_t(seen) == 0) return true;
      if (backoff(round, spins)) unfinished_.wait(seen, std::memory_order_acquire);
    }
  }

 private:
  static uint64_t word(uint32_t epoch, int chunks) {
    return uint64_t(epoch) << 32 | uint32_t(chunks);
  }

  std::atomic<uint64_t> untaken_{0};
  std::atomic<uint64_t> unfinished_{0};
  int total_ = 0;  // read only by the holder of a chunk, while the epoch cannot end
};

}  // namespace pyrite
