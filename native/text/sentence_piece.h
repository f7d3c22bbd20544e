#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoder.h"
#include "text/merges.h"

namespace pyrite {

// SentencePiece's word boundary, U+2581. Here it is a space, in pieces and in texts alike: the two
// cannot be told apart in what SentencePiece sees.
std::string spaces_for_boundaries(std::string_view text);

// The byte that a piece such as "<0x0A>" stands for, or -1.
int byte_of_piece(std::string_view piece);

// Where a space is put before a text.
enum class SpacePrefix : int32_t {
  kNever = 0,
  kAlways = 1,          // before each text between two markers
  kUnlessSpaced = 2,    // the same, but not before a space
  kFirstUnlessSpaced = 3,  // only where nothing stands before the text
};

struct Spaces {
  SpacePrefix prefix;
  bool cuts = false;  // each space begins a word, one behind another too
};

// BPE over characters, as SentencePiece does it; what is in no piece falls back to its bytes, or to
// the unknown token. Which pair merges first is told in one of two ways:
// * by scores: any two whose joint piece is a token, the highest score first;
// * by merges: only the pairs that are listed, in their order.
class SentencePiece : public Encoder {
 public:
  // `scores` has one value a token; the vocabulary must outlive it.
  SentencePiece(const Vocabulary& vocabulary, const float* scores, Spaces spaces,
                int32_t unknown_id);

  // `merges` are as the file has them, b"left right" by rank.
  SentencePiece(const Vocabulary& vocabulary, const Strings& merges, Spaces spaces,
                int32_t unknown_id);

  size_t num_dead_merges() const { return num_dead_merges_; }

  void encode(const uint8_t* text, size_t size, bool first,
              std::vector<int32_t>& ids) const override;

 private:
  SentencePiece(const Vocabulary& vocabulary, Spaces spaces, int32_t unknown_id);

  bool prefixed(std::string_view text, bool first) const;
  void encode_words(const uint8_t* text, size_t size, std::vector<int32_t>& ids) const;
  void encode_word(const uint8_t* word, size_t size, Scratch& scratch,
                   std::vector<int32_t>& ids) const;
  void add_symbols(const uint8_t* word, size_t size, std::vector<Symbol>& symbols) const;
  void merge_word(const uint8_t* word, size_t size, Scratch& scratch) const;
  void push_bytes(const uint8_t* bytes, size_t size, std::vector<int32_t>& ids) const;
  bool has_bytes(const uint8_t* bytes, size_t size) const;

  const Vocabulary& vocabulary_;
  std::vector<uint32_t> keys_;      // by scores: one a token, falling with the score
  std::optional<PairTable> pairs_;  // by merges
  WholeWords whole_;
  std::array<int32_t, 256> byte_ids_;
  std::array<bool, 256> glues_{};  // last bytes before a space inside a piece: no word ends there
  Spaces spaces_;
  int32_t unknown_id_;
  size_t num_dead_merges_ = 0;
};

}  // namespace pyrite
