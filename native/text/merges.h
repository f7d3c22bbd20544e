#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/merge.h"
#include "text/strings.h"
#include "text/vocabulary.h"

namespace pyrite {

// (left id, right id) -> rank and merged id. Open addressing; a pair has one rank, its first.
class PairTable {
 public:
  explicit PairTable(size_t count);
  void add(int32_t left, int32_t right, Merge merge);
  void prefetch(int32_t left, int32_t right) const {
    __builtin_prefetch(&slots_[slot_of(key_of(left, right))]);
  }

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    size_t slot = slot_of(key);
    while (slots_[slot].key != key) {
      if (slots_[slot].key == kFree) return {};
      slot = (slot + 1) & mask_;
    }
    return slots_[slot].merge;
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;  // two ids of -1, which no symbol has

  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }
  size_t slot_of(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15;
    return (key ^ key >> 32) & mask_;
  }

  size_t mask_;
  std::vector<Slot> slots_;
};

// Appends the bytes that a written piece stands for; false when it stands for none.
using ReadPiece = bool (*)(std::string_view written, std::string& bytes);

// The merges of a file, which are written b"left right" by rank. Returns how many are dead: a part,
// or what they make, is not in the vocabulary, so that they never apply.
size_t read_merges(const Strings& merges, const Vocabulary& vocabulary, ReadPiece read,
                   PairTable& pairs);

}  // namespace pyrite
