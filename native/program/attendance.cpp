#include "program/attendance.h"

#include <algorithm>

namespace pyrite {

namespace {

constexpr double kHeldShare = 0.3;  // of the time that the others could have worked
constexpr int kHeldSteps = 2;       // one alone may be the system's own doing
constexpr int64_t kShortestRest = 50'000'000;
constexpr int64_t kLongestRest = 1'600'000'000;

}  // namespace

void Attendance::record(int64_t now, int64_t spent, int64_t stalled) {
  if (count_ < size_ && now - changed_at_ >= rest_) {
    ++count_;
    held_up_ = 0;
    changed_at_ = now;
    trying_ = true;
    return;
  }
  const bool held = count_ > 1 && double(stalled) > kHeldShare * double(spent) * (count_ - 1);
  held_up_ = held ? held_up_ + 1 : 0;
  if (trying_ && !held && now - changed_at_ >= rest_) trying_ = false;
  if (held_up_ >= (trying_ ? 1 : kHeldSteps)) send_away(now);
}

// A try that failed is followed by twice the rest.
void Attendance::send_away(int64_t now) {
  rest_ = trying_ ? std::min(2 * rest_, kLongestRest) : kShortestRest;
  --count_;
  held_up_ = 0;
  changed_at_ = now;
  trying_ = false;
}

}  // namespace pyrite
