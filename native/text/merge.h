#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

namespace pyrite {

// A part of a word that is, or may become, one token.
struct Symbol {
  uint32_t start;  // offset in the word, bytes
  uint32_t size;   // bytes
  int32_t id;      // -1: not a token
};

// What two neighbours become. The lowest key merges first, of equal keys the leftmost.
struct Merge {
  static constexpr uint32_t kNever = UINT32_MAX;
  uint32_t key = kNever;
  int32_t id = -1;
};

// What a merge works on: one for all the words of a text.
struct Scratch {
  std::vector<Symbol> symbols;
  std::vector<Merge> merges;  // merges[i]: of the symbols i and i + 1
};

// Merges neighbours until none can be merged. `pair(left, right)` gives what two symbols become.
// The two versions give the same symbols: one for words, quadratic in their length and quick below
// a few dozen symbols, and one with a heap for whatever a user sends, O(n log n).
template <class Pair>
void merge_short(Scratch& scratch, const Pair& pair) {
  auto& [symbols, merges] = scratch;
  const auto merge_at = [&, &symbols = symbols](size_t i) {
    return i + 1 < symbols.size() ? pair(symbols[i], symbols[i + 1]) : Merge{};
  };
  merges.clear();
  for (size_t i = 0; i < symbols.size(); ++i) merges.push_back(merge_at(i));
  const auto lower = [](const Merge& a, const Merge& b) { return a.key < b.key; };
  while (symbols.size() > 1) {
    const auto best = std::min_element(merges.begin(), merges.end(), lower);
    if (best->key == Merge::kNever) return;
    const size_t i = size_t(best - merges.begin());
    symbols[i].id = best->id;
    symbols[i].size += symbols[i + 1].size;
    symbols.erase(symbols.begin() + ptrdiff_t(i) + 1);
    merges.erase(merges.begin() + ptrdiff_t(i) + 1);
    merges[i] = merge_at(i);
    if (i > 0) merges[i - 1] = merge_at(i - 1);
  }
}

template <class Pair>
class LongMerge {
 public:
  LongMerge(std::vector<Symbol>& symbols, const Pair& pair) : symbols_(symbols), pair_(pair) {}

  void operator()() {
    const size_t count = symbols_.size();
    links_.resize(count);
    for (size_t i = 0; i < count; ++i) links_[i] = {uint32_t(i) - 1, uint32_t(i) + 1};
    links_[count - 1].next = kNone;
    for (uint32_t i = 0; i + 1 < count; ++i) push(i, i + 1);
    while (!queue_.empty()) {
      const Candidate candidate = queue_.top();
      queue_.pop();
      if (current(candidate)) merge(candidate);
    }
    std::erase_if(symbols_, [](const Symbol& symbol) { return symbol.size == 0; });
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Link {
    uint32_t previous;
    uint32_t next;
  };

  struct Candidate {
    uint32_t key;
    uint32_t left;
    uint32_t left_size;
    uint32_t right_size;
    int32_t id;
    bool operator<(const Candidate& other) const {
      return key != other.key ? key > other.key : left > other.left;
    }
  };

  void push(uint32_t left, uint32_t right) {
    if (left == kNone || right == kNone) return;
    const Merge merge = pair_(symbols_[left], symbols_[right]);
    if (merge.key == Merge::kNever) return;
    queue_.push({merge.key, left, symbols_[left].size, symbols_[right].size, merge.id});
  }

  // A symbol that was merged away has size 0; one that grew has another size than it was queued with.
  bool current(const Candidate& candidate) const {
    const uint32_t right = links_[candidate.left].next;
    return symbols_[candidate.left].size == candidate.left_size && right != kNone &&
           symbols_[right].size == candidate.right_size;
  }

  void merge(const Candidate& candidate) {
    const uint32_t left = candidate.left;
    const uint32_t right = links_[left].next;
    symbols_[left].id = candidate.id;
    symbols_[left].size += symbols_[right].size;
    symbols_[right].size = 0;
    links_[left].next = links_[right].next;
    if (links_[left].next != kNone) links_[links_[left].next].previous = left;
    push(links_[left].previous, left);
    push(left, links_[left].next);
  }

  std::vector<Symbol>& symbols_;
  const Pair& pair_;
  std::vector<Link> links_;
  std::priority_queue<Candidate> queue_;
};

template <class Pair>
void merge_symbols(Scratch& scratch, const Pair& pair) {
  constexpr size_t kShort = 48;
  if (scratch.symbols.size() <= kShort) return merge_short(scratch, pair);
  LongMerge<Pair>(scratch.symbols, pair)();
}

}  // namespace pyrite
