#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pyrite {

// Where the end of a text occurred before, and so what may come next: the longest match of the last
// tokens, the most recent among equals. The places of each pair of tokens are a chain, as in LZ77;
// a bounded number of them is looked at, so that a token costs the same however long the text is.
//
// A copy that departs from its source comes back to it soon: after tokens of its own, or past some
// that it leaves out. So for a while after a match fails, one token that agrees near the place where
// it failed is enough, and the match is resumed there.
class Ngrams {
 public:
  // Appends a token. Gives the length of the match that foresaw a next token, negative if it was
  // another one, and 0 if there was no match.
  int append(int32_t token);
  // Tokens at the end that agree with those before what may come next: 0, or from kShortest to
  // kLongest; kResumed and so many, at least one, if the match is resumed.
  int length() const { return resumed_ ? kResumed + length_ : length_; }
  // What came after the match, `count` tokens; where the text ends, the match repeats itself. Needs
  // a match.
  void predict(int count, int32_t* tokens) const;

  static constexpr int kShortest = 2;
  static constexpr int kLongest = 32;
  static constexpr int kResumed = 64;

 private:
  static constexpr int kChain = 16;  // places that are looked at
  static constexpr int kFirm = 4;     // tokens of a match that is worth coming back to
  static constexpr int kSought = 24;  // tokens after its failure in which it is sought
  static constexpr int kNear = 16;    // places that are looked at then
  static constexpr int kSettled = 20;  // tokens after which it is a match like others

  size_t slot(size_t end) const;
  int agreeing(size_t place) const;
  void link();
  void grow();
  void consider(size_t place);
  void look_up(size_t followed);
  void resume(size_t followed);
  size_t nearest_agreeing() const;

  std::vector<int32_t> tokens_;
  std::vector<int32_t> newest_;    // (a power of two,) place after the newest pair of a slot; 0: none
  std::vector<int32_t> previous_;  // (tokens + 1,) place after the pair before in the slot; 0: none
  size_t source_ = 0;              // the place after the match
  int length_ = 0;
  bool resumed_ = false;
  size_t lost_ = 0;    // the place in the source where a match failed; 0: none is sought
  int num_since_ = 0;  // tokens that came since
};

}  // namespace pyrite
