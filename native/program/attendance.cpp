#include "program/attendance.h"

#include <algorithm>

namespace pyrite {

namespace {

constexpr double kHeldShare = 0.3;  // of the time that the others could have worked
// In a row. Some steps may be the system's own doing: it likes to wake a thread on the core of the
// one that wakes it, and takes some milliseconds to see that another core is free.
constexpr int kHeldSteps = 3;
constexpr int64_t kHeldTime = 20'000'000;
constexpr int64_t kShortestRest = 50'000'000;
constexpr int64_t kLongestRest = 800'000'000;

}  // namespace

void Attendance::record(int64_t now, int64_t spent, int64_t stalled) {
  if (count_ < size_ && now - changed_at_ >= rest_) {
    ++count_;
    changed_at_ = now;
    trying_ = true;
    held_up_ = 0;
    held_time_ = 0;
    return;
  }
  const bool held = count_ > 1 && double(stalled) > kHeldShare * double(spent) * (count_ - 1);
  held_up_ = held ? held_up_ + 1 : 0;
  held_time_ = held ? held_time_ + spent : 0;
  if (trying_ && !held && now - changed_at_ >= rest_) trying_ = false;
  if (held_up_ >= kHeldSteps && held_time_ >= kHeldTime) send_away(now);
}

// A try that failed is followed by twice the rest.
void Attendance::send_away(int64_t now) {
  rest_ = trying_ ? std::min(2 * rest_, kLongestRest) : kShortestRest;
  --count_;
  held_up_ = 0;
  held_time_ = 0;
  changed_at_ = now;
  trying_ = false;
}

}  // namespace pyrite
