#pragma once
#include <array>
#include <string>
#include <string_view>

#include "text/encoder.h"

namespace pyrite {

// SentencePiece's word boundary, U+2581. Here it is a space, in pieces and in texts alike: the two
// cannot be told apart in what SentencePiece sees.
std::string spaces_for_boundaries(std::string_view text);

// The byte that a piece such as "<0x0A>" stands for, or -1.
int byte_of_piece(std::string_view piece);

// BPE with scores, as SentencePiece does it: the pair whose joint piece has the highest score merges
// first; what is in no piece falls back to its bytes, or to the unknown token.
class SentencePiece : public Encoder {
 public:
  // `scores` has one value a token; both must outlive it.
  SentencePiece(const Vocabulary& vocabulary, const float* scores, bool add_space_prefix,
                int32_t unknown_id);

  // A space is put before the text when the model asks for it.
  void encode(const uint8_t* text, size_t size, std::vector<int32_t>& ids) const override;

 private:
  void encode_words(const uint8_t* text, size_t size, std::vector<int32_t>& ids) const;
  void encode_word(const uint8_t* word, size_t size, Scratch& scratch,
                   std::vector<int32_t>& ids) const;
  void merge_word(const uint8_t* word, size_t size, Scratch& scratch) const;
  void push_bytes(const uint8_t* bytes, size_t size, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary_;
  std::vector<uint32_t> keys_;  // by id: falling with the score
  WholeWords whole_;
  std::array<int32_t, 256> byte_ids_;
  std::array<bool, 256> glues_{};  // last bytes before a space inside a piece: no word ends there
  bool add_space_prefix_;
  int32_t unknown_id_;
};

}  // namespace pyrite
