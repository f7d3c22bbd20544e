#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyrite {

// Where the end of a text occurred before, and so what may come next: the longest match of the last
// tokens, the most recent among equals. The places of each pair of tokens are a chain, as in LZ77;
// a bounded number of them is looked at, so that a token costs the same however long the text is.
class Ngrams {
 public:
  // Appends a token. Gives the length of the match that foresaw a next token, negative if it was
  // another one, and 0 if there was no match.
  int append(int32_t token);
  // Tokens at the end that agree with those before `next()`; 0, or from kShortest to kLongest.
  int length() const { return length_; }
  // What came after the match, `count` tokens; where the text ends, the match repeats itself. Needs
  // a match.
  void predict(int count, int32_t* tokens) const;

  static constexpr int kShortest = 2;
  static constexpr int kLongest = 32;

 private:
  static constexpr int kChain = 16;  // places that are looked at

  size_t slot(size_t end) const;
  int agreeing(size_t place) const;
  void link();
  void grow();
  void consider(size_t place);

  std::vector<int32_t> tokens_;
  std::vector<int32_t> newest_;    // (a power of two,) place after the newest pair of a slot; 0: none
  std::vector<int32_t> previous_;  // (tokens + 1,) place after the pair before in the slot; 0: none
  size_t source_ = 0;              // the place after the match
  int length_ = 0;
};

}  // namespace pyrite
