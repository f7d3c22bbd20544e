#include "sampling/history.h"

#include <algorithm>
#include <cmath>

namespace pyrite {
namespace {

constexpr size_t kFirstSlots = 64;
constexpr double kDryCeiling = 1e30;  // keeps a penalty finite however long the repetition is

// The high bits of a product with 2^64 / golden ratio; `mask` is a power of two less one.
size_t spread(int32_t token, size_t mask) {
  return size_t((uint64_t(uint32_t(token)) * 0x9E3779B97F4A7C15) >> 32) & mask;
}

bool contains(std::span<const int32_t> sorted, int32_t token) {
  return std::binary_search(sorted.begin(), sorted.end(), token);
}

// How far back from the end the first breaker is: no repeated stretch is longer than this.
int32_t breaker_distance(std::span<const int32_t> history, std::span<const int32_t> breakers) {
  int32_t distance = 0;
  while (distance < int32_t(history.size()) &&
         !contains(breakers, history[history.size() - 1 - distance])) {
    ++distance;
  }
  return distance;
}

}  // namespace

TokenCounts::Entry& TokenCounts::slot(int32_t token) {
  const size_t mask = slots_.size() - 1;
  size_t at = spread(token, mask);
  while (slots_[at].token != token && slots_[at].token != -1) at = (at + 1) & mask;
  return slots_[at];
}

void TokenCounts::grow() {
  std::vector<Entry> old(std::max(kFirstSlots, slots_.size() * 2));
  old.swap(slots_);
  for (const Entry& entry : old) {
    if (entry.token != -1) slot(entry.token) = entry;
  }
}

void TokenCounts::add(int32_t token, bool generated) {
  if (used_ * 2 >= slots_.size()) grow();
  Entry& entry = slot(token);
  used_ += entry.token == -1;
  entry.token = token;
  entry.generated += generated;
}

// matches_[k] becomes min(longest, tokens that agree walking back from the end and from k before
// it): the Z function of the reversed history, linear in its size. A capped value is copied as
// soundly as an exact one, for the copy is capped the same.
void Repeats::find(std::span<const int32_t> history, int32_t longest, int32_t allowed_length,
                   std::span<const int32_t> sorted_breakers) {
  const int32_t size = int32_t(history.size());
  const auto reversed = [&](int32_t i) { return history[size - 1 - i]; };
  matches_.assign(size_t(size), 0);
  followers_.clear();
  int32_t left = 0, right = 0;  // reversed[left, right) agrees with the beginning of reversed
  for (int32_t k = 1; k < size; ++k) {
    int32_t length = k < right ? std::min(right - k, matches_[k - left]) : 0;
    while (length < longest && k + length < size && reversed(length) == reversed(k + length)) {
      ++length;
    }
    matches_[k] = length;
    if (k + length > right) {
      left = k;
      right = k + length;
    }
    const int32_t next = reversed(k - 1);
    if (length >= allowed_length && !contains(sorted_breakers, next)) {
      followers_.push_back({next, length});
    }
  }
}

void Repeats::lower(std::span<const int32_t> history, std::span<const int32_t> sorted_breakers,
                    double multiplier, double base, int32_t allowed_length, float* row) {
  const int32_t longest = breaker_distance(history, sorted_breakers);
  if (longest < allowed_length) return;
  find(history, longest, allowed_length, sorted_breakers);
  std::sort(followers_.begin(), followers_.end(), [](const Follower& a, const Follower& b) {
    return a.token != b.token ? a.token < b.token : a.length > b.length;
  });
  int32_t previous = -1;
  for (const Follower& follower : followers_) {
    if (follower.token == previous) continue;  // only its longest stretch counts
    previous = follower.token;
    const double power = std::pow(base, double(follower.length - allowed_length));
    row[follower.token] -= float(std::min(multiplier * power, kDryCeiling));
  }
}

}  // namespace pyrite
