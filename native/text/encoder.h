#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "text/merge.h"
#include "text/vocabulary.h"

namespace pyrite {

// Turns text into token ids.
class Encoder {
 public:
  virtual ~Encoder() = default;

  // Appends the ids of `text`, which holds no marker: it is all that stands between two of them.
  // `first`: nothing stands before it.
  virtual void encode(const uint8_t* text, size_t size, bool first,
                      std::vector<int32_t>& ids) const = 0;
};

// Remembers of each token whether its own bytes encode to just that token, which is almost always so
// and makes one look-up of most words. Learnt when first asked; threads that learn the same thing at
// once write the same value.
class WholeWords {
 public:
  explicit WholeWords(size_t count) : states_(std::make_unique<std::atomic<State>[]>(count)) {}

  // `encodes_to_itself` is called at most once for an id, save for races.
  template <class Learn>
  bool operator()(int32_t id, const Learn& encodes_to_itself) const {
    std::atomic<State>& state = states_[size_t(id)];
    const State known = state.load(std::memory_order_relaxed);
    if (known != State::kUnasked) return known == State::kWhole;
    const bool whole = encodes_to_itself();
    state.store(whole ? State::kWhole : State::kParts, std::memory_order_relaxed);
    return whole;
  }

 private:
  enum class State : uint8_t { kUnasked = 0, kWhole, kParts };
  std::unique_ptr<std::atomic<State>[]> states_;
};

}  // namespace pyrite
