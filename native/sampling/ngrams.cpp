#include "sampling/ngrams.h"

#include <algorithm>

namespace pyrite {
namespace {

constexpr size_t kFirstSlots = 256;

}  // namespace

// Of the pair of tokens that ends before `end`.
size_t Ngrams::slot(size_t end) const {
  const uint64_t pair = uint64_t(uint32_t(tokens_[end - 2])) << 32 | uint32_t(tokens_[end - 1]);
  return size_t((pair * 0x9E3779B97F4A7C15) >> 32) & (newest_.size() - 1);
}

// How many tokens before `place` agree with those at the end.
int Ngrams::agreeing(size_t place) const {
  const size_t end = tokens_.size();
  int length = 0;
  while (length < kLongest && size_t(length) < place &&
         tokens_[place - 1 - length] == tokens_[end - 1 - length]) {
    ++length;
  }
  return length;
}

void Ngrams::consider(size_t place) {
  const int length = agreeing(place);
  if (length < kShortest) return;
  if (length > length_ || (length == length_ && place > source_)) {
    length_ = length;
    source_ = place;
  }
}

// Chains as many slots as there are tokens, so that a chain holds few places of other pairs.
void Ngrams::grow() {
  newest_.assign(std::max(kFirstSlots, newest_.size() * 2), 0);
  for (size_t end = kShortest; end < tokens_.size(); ++end) {
    int32_t& newest = newest_[slot(end)];
    previous_[end] = newest;
    newest = int32_t(end);
  }
}

void Ngrams::link() {
  const size_t end = tokens_.size();
  int32_t& newest = newest_[slot(end)];
  previous_[end] = newest;
  newest = int32_t(end);
}

int Ngrams::append(int32_t token) {
  const bool foreseen = length_ > 0 && tokens_[source_] == token;
  const int known = foreseen ? length_ : -length_;
  const size_t followed = foreseen ? source_ + 1 : 0;
  tokens_.push_back(token);
  previous_.resize(tokens_.size() + 1, 0);
  length_ = 0;
  source_ = 0;
  if (tokens_.size() < size_t(kShortest)) return known;
  if (tokens_.size() > newest_.size()) grow();
  if (followed > 0) consider(followed);
  int32_t place = newest_[slot(tokens_.size())];
  for (int i = 0; i < kChain && place > 0; ++i, place = previous_[place]) consider(size_t(place));
  link();
  return known;
}

void Ngrams::predict(int count, int32_t* tokens) const {
  const size_t period = tokens_.size() - source_;
  for (int i = 0; i < count; ++i) {
    tokens[i] = size_t(i) < period ? tokens_[source_ + i] : tokens[i - period];
  }
}

}  // namespace pyrite
