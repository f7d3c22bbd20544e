#pragma once
// Where the time of steps goes: how long each phase took, and how long each member stood idle in it.
// Nothing is counted while it is off.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace pyrite {

using Clock = std::chrono::steady_clock;

inline int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

class Stopwatch {
 public:
  Stopwatch(int num_members, int num_phases)
      : num_phases_(size_t(num_phases)),
        idle_(new std::atomic<int64_t>[size_t(num_members) * num_phases_]()),
        size_(size_t(num_members) * num_phases_),
        spent_(num_phases_) {}

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Between steps. Sets everything back to zero.
  void turn(bool on) {
    on_.store(on, std::memory_order_relaxed);
    std::fill(spent_.begin(), spent_.end(), 0);
    for (size_t i = 0; i < size_; ++i) idle_[i].store(0, std::memory_order_relaxed);
  }

  // The caller when a step begins, then whoever ends a phase.
  void start() { phase_start_ = Clock::now(); }
  void end_phase(int phase) {
    const Clock::time_point now = Clock::now();
    spent_[size_t(phase)] += std::chrono::nanoseconds(now - phase_start_).count();
    phase_start_ = now;
  }

  // A member that the system held back may tell of a step that is over.
  void add_idle(int member, int phase, int64_t nanoseconds) {
    idle_[size_t(member) * num_phases_ + size_t(phase)].fetch_add(nanoseconds,
                                                                  std::memory_order_relaxed);
  }

  // Nanoseconds since it was turned on.
  const std::vector<int64_t>& spent() const { return spent_; }
  int64_t idle(int member, int phase) const {
    return idle_[size_t(member) * num_phases_ + size_t(phase)].load(std::memory_order_relaxed);
  }

 private:
  const size_t num_phases_;
  std::atomic<bool> on_{false};
  std::unique_ptr<std::atomic<int64_t>[]> idle_;  // (members, phases)
  const size_t size_;
  std::vector<int64_t> spent_;
  Clock::time_point phase_start_;
};

}  // namespace pyrite
