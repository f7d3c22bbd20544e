#pragma once
#include <array>
#include <string>
#include <string_view>

#include "text/encoder.h"
#include "text/split.h"
#include "text/strings.h"

namespace pyrite {

// The alphabet of byte-level vocabularies (GPT-2's encoder.py): a printable character for each byte.
// Appends the bytes that `written` stands for; false when a character is not in the alphabet.
bool read_byte_alphabet(std::string_view written, std::string& bytes);

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

// Byte-level BPE with ranked merges, after a pre-tokenizer.
class BytePair : public Encoder {
 public:
  // Vocabulary and splitter must outlive it. `merges` are as the file has them, b"left right" by
  // rank. `unknown_id` (or -1: nothing) stands for a byte that has no token.
  BytePair(const Vocabulary& vocabulary, const Splitter& splitter, const Strings& merges,
           int32_t unknown_id);

  // Merges of which a part, or what they make, is not in the vocabulary: they never apply.
  size_t num_dead_merges() const { return num_dead_merges_; }

  size_t num_missing_bytes() const;

  void encode(const uint8_t* text, size_t size, std::vector<int32_t>& ids) const override;

 private:
  void add_merges(const Strings& merges, size_t begin, size_t end);
  void encode_word(const uint8_t* word, size_t size, Scratch& scratch,
                   std::vector<int32_t>& ids) const;
  void merge_word(const uint8_t* word, size_t size, Scratch& scratch) const;

  const Vocabulary& vocabulary_;
  const Splitter& splitter_;
  PairTable pairs_;
  WholeWords whole_;
  std::array<int32_t, 256> byte_ids_;
  int32_t unknown_id_;
  size_t num_dead_merges_ = 0;
};

}  // namespace pyrite
