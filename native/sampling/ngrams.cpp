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

void Ngrams::look_up(size_t followed) {
  length_ = 0;
  source_ = 0;
  resumed_ = false;
  if (tokens_.size() < size_t(kShortest)) return;
  if (tokens_.size() > newest_.size()) grow();
  if (followed > 0) consider(followed);
  int32_t place = newest_[slot(tokens_.size())];
  for (int i = 0; i < kChain && place > 0; ++i, place = previous_[place]) consider(size_t(place));
  link();
}

// Of the places after the one where the match failed that agree with the last token, the one with
// the longest agreement; among equals the nearest to where the text goes on if as many tokens were
// exchanged, or none was left out. 0 if there is none.
size_t Ngrams::nearest_agreeing() const {
  const auto distance = [this](size_t place) {
    const auto from = [place](size_t other) { return place > other ? place - other : other - place; };
    return std::min(from(lost_ + size_t(num_since_)), from(lost_ + 1));
  };
  size_t best = 0;
  int length = 0;
  const size_t stop = std::min(lost_ + 1 + kNear, tokens_.size());
  for (size_t place = lost_ + 1; place < stop; ++place) {
    const int agreed = agreeing(place);
    if (agreed == 0 || agreed < length) continue;
    if (agreed > length || distance(place) < distance(best)) best = place;
    length = agreed;
  }
  return best;
}

// Goes on with the match that was lost, if none is longer that was looked up.
void Ngrams::resume(size_t followed) {
  if (lost_ == 0) return;
  ++num_since_;
  if (followed == 0 && num_since_ > kSought) {
    lost_ = 0;
    return;
  }
  const size_t place = followed > 0 ? followed : nearest_agreeing();
  const int length = place > 0 ? agreeing(place) : 0;
  if (followed > 0 && length >= kSettled) lost_ = 0;
  if (lost_ == 0 || length == 0 || length < length_) return;
  length_ = length;
  source_ = place;
  resumed_ = true;
}

int Ngrams::append(int32_t token) {
  const int before = length();
  const bool foreseen = length_ > 0 && tokens_[source_] == token;
  const size_t followed = foreseen ? source_ + 1 : 0;
  const bool was_resumed = resumed_;
  if (!foreseen && length_ >= kFirm) {
    lost_ = source_;
    num_since_ = 0;
  }
  tokens_.push_back(token);
  previous_.resize(tokens_.size() + 1, 0);
  look_up(followed);
  resume(was_resumed ? followed : 0);
  return foreseen ? before : -before;
}

void Ngrams::predict(int count, int32_t* tokens) const {
  const size_t period = tokens_.size() - source_;
  for (int i = 0; i < count; ++i) {
    tokens[i] = size_t(i) < period ? tokens_[source_ + i] : tokens[i - period];
  }
}

}  // namespace pyrite
