#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "text/strings.h"

namespace pyrite {

// GGUF's tokenizer.ggml.token_type.
enum class Kind : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUser = 4,
  kUnused = 5,
  kByte = 6,
};

// Multiplies, folds and never reads past `size`. Not stable across versions: it is never stored.
uint64_t hash_bytes(const uint8_t* data, size_t size);

// Token ids and the bytes they stand for, in both directions. A token is findable when text may become
// it by merging; others are reached by their id, or as markers.
class Vocabulary {
 public:
  void reserve(size_t count, size_t bytes);

  // Ids are given in order. Throws std::length_error past 4 GiB of bytes.
  void add(std::string_view bytes, Kind kind, bool findable);

  // To be called once, after the last `add`. Of tokens with equal bytes the last one is found.
  void index();

  size_t size() const { return kinds_.size(); }
  Kind kind(int32_t id) const { return kinds_[size_t(id)]; }
  bool findable(int32_t id) const { return findable_[size_t(id)]; }
  size_t longest() const { return longest_; }
  int32_t repeated() const { return repeated_; }  // a findable token that an earlier one equals, or -1

  std::string_view bytes(int32_t id) const {
    const char* first = reinterpret_cast<const char*>(bytes_.data()) + starts_[size_t(id)];
    return {first, starts_[size_t(id) + 1] - starts_[size_t(id)]};
  }

  // The bytes of all tokens, by id.
  StringList all() const;

  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }

  // The findable token of exactly these bytes, or -1.
  int32_t find(const uint8_t* data, size_t size) const {
    return size > longest_ ? -1 : find(data, size, hash_bytes(data, size));
  }

  // The same, with hash_bytes(data, size) known. Where many are sought, `prefetch` a few of them
  // ahead: the table is larger than the near caches.
  int32_t find(const uint8_t* data, size_t size, uint64_t hash) const {
    const uint32_t tag = uint32_t(hash >> 32);
    for (size_t slot = hash & mask_; slots_[slot].id >= 0; slot = (slot + 1) & mask_) {
      if (slots_[slot].tag == tag && equals(slots_[slot].id, data, size)) return slots_[slot].id;
    }
    return -1;
  }

 private:
  struct Slot {
    uint32_t tag;
    int32_t id;  // -1: free
  };

  void insert(int32_t id, uint64_t hash);

  bool equals(int32_t id, const uint8_t* data, size_t size) const {
    const std::string_view own = bytes(id);
    return own.size() == size && std::memcmp(own.data(), data, size) == 0;
  }

  std::vector<uint8_t> bytes_;
  std::vector<uint32_t> starts_{0};
  std::vector<Kind> kinds_;
  std::vector<bool> findable_;
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t longest_ = 0;  // bytes of the longest findable token
  int32_t repeated_ = -1;
};

}  // namespace pyrite
