#pragma once
#include <array>
#include <string>
#include <string_view>

#include "text/encoder.h"
#include "text/merges.h"
#include "text/split.h"
#include "text/strings.h"

namespace pyrite {

// The alphabet of byte-level vocabularies (GPT-2's encoder.py): a printable character for each byte.
// Appends the bytes that `written` stands for; false when a character is not in the alphabet.
bool read_byte_alphabet(std::string_view written, std::string& bytes);

// How a text becomes words, and words tokens.
struct Words {
  const Splitter& splitter;
  bool whole_first;          // a word that is a token is taken as it is, whatever the merges say
  bool space_first = false;  // a space is put before a text that begins with none
};

// Byte-level BPE with ranked merges, after a pre-tokenizer.
class BytePair : public Encoder {
 public:
  // Vocabulary and splitter must outlive it. `merges` are as the file has them, b"left right" by
  // rank. `unknown_id` (or -1: nothing) stands for a byte that has no token.
  BytePair(const Vocabulary& vocabulary, const Words& words, const Strings& merges,
           int32_t unknown_id);

  size_t num_dead_merges() const { return num_dead_merges_; }

  size_t num_missing_bytes() const;

  void encode(const uint8_t* text, size_t size, bool first,
              std::vector<int32_t>& ids) const override;

 private:
  void encode_words(const uint8_t* text, size_t size, std::vector<int32_t>& ids) const;
  void encode_word(const uint8_t* word, size_t size, Scratch& scratch,
                   std::vector<int32_t>& ids) const;
  void merge_word(const uint8_t* word, size_t size, Scratch& scratch) const;

  const Vocabulary& vocabulary_;
  Words words_;
  PairTable pairs_;
  WholeWords whole_;
  std::array<int32_t, 256> byte_ids_;
  int32_t unknown_id_;
  size_t num_dead_merges_ = 0;
};

}  // namespace pyrite
