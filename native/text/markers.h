#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace pyrite {

// Tokens that are matched in the text as they stand, before anything else looks at it: control tokens
// when the caller asks for them, and user-defined tokens always. A trie, walked once from each place
// where a marker may begin: the longest one wins.
class Markers {
 public:
  struct Found {
    int32_t id = -1;
    size_t size = 0;
  };

  // A matching walk is as long as the longest marker, and memory some 70 times their bytes: both are
  // bounded, far above what any model has, so that a hostile file can make neither hurt.
  static constexpr size_t kMostBytes = 1024;
  static constexpr size_t kMostNodes = size_t(1) << 20;

  // Of two markers of one sort with equal bytes the later one stands. Throws std::length_error past
  // one of the bounds.
  void add(std::string_view bytes, int32_t id, bool control);

  // The longest marker that begins at `at`; control tokens only when they end by `control_end`.
  Found longest(const uint8_t* text, size_t size, size_t at, size_t control_end) const;

  // The first offset from `at` on where a marker may begin, or `size`.
  size_t candidate(const uint8_t* text, size_t size, size_t at) const {
    while (at < size && !begins_[text[at]]) ++at;
    return at;
  }

 private:
  static constexpr uint64_t kFree = UINT64_MAX;

  struct Node {
    int32_t user = -1;
    int32_t control = -1;
  };

  struct Edge {
    uint64_t key = kFree;  // node << 8 | byte
    uint32_t child = 0;
  };

  size_t slot_of(uint64_t key) const;
  uint32_t child(uint32_t node, uint8_t byte) const;  // 0, the root, when there is none
  uint32_t grow(uint32_t node, uint8_t byte);
  void enlarge();

  std::vector<Node> nodes_{1};
  std::vector<Edge> edges_;
  size_t num_edges_ = 0;
  std::array<bool, 256> begins_{};
};

}  // namespace pyrite
