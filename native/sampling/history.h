#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pyrite {

// The distinct tokens of a request, and how often each was generated. Open addressing, at most half
// full; memory grows by doubling, so that most additions allocate nothing.
class TokenCounts {
 public:
  struct Entry {
    int32_t token = -1;  // -1: a free slot
    int32_t generated = 0;
  };

  void add(int32_t token, bool generated);
  std::span<const Entry> slots() const { return slots_; }

 private:
  Entry& slot(int32_t token);
  void grow();

  std::vector<Entry> slots_;
  size_t used_ = 0;
};

// DRY ("don't repeat yourself", p-e-w, text-generation-webui pull request 5677): where the end of
// the history occurred before, the token that followed it there is held back, the more the longer
// the repeated stretch. A stretch never reaches across a breaker, and a breaker is never held back.
class Repeats {
 public:
  // Lowers logits of `row` by min(multiplier * base^(length - allowed), ceiling).
  void lower(std::span<const int32_t> history, std::span<const int32_t> sorted_breakers,
             double multiplier, double base, int32_t allowed_length, float* row);

 private:
  struct Follower {
    int32_t token;
    int32_t length;
  };
  void find(std::span<const int32_t> history, int32_t longest, int32_t allowed_length,
            std::span<const int32_t> sorted_breakers);

  std::vector<int32_t> matches_;  // (history,)
  std::vector<Follower> followers_;
};

}  // namespace pyrite
