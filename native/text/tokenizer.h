#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoder.h"
#include "text/markers.h"
#include "text/split.h"
#include "text/strings.h"
#include "text/vocabulary.h"

namespace pyrite {

// What a model's file says; only read while a tokenizer is made.
struct TokenizerSource {
  Strings tokens;
  const int32_t* types;  // one a token
  int32_t unknown_id;    // -1: none
};

// Where control tokens may stand in a text: [begin, end) in bytes, ascending, apart.
struct Span {
  size_t begin;
  size_t end;
};

// Text to token ids and back, for one vocabulary. Immutable once made, but for what it remembers of
// words, so threads may share it. Ids that it is given must be in the vocabulary.
class Tokenizer {
 public:
  static std::unique_ptr<Tokenizer> byte_pair(const TokenizerSource& source, const Strings& merges,
                                              const Splitter& splitter);
  static std::unique_ptr<Tokenizer> sentence_piece(const TokenizerSource& source,
                                                   const float* scores, bool add_space_prefix);

  // Control tokens that lie wholly in one of `spans` become their ids. User-defined tokens always do.
  void encode(const uint8_t* text, size_t size, std::span<const Span> spans,
              std::vector<int32_t>& ids) const;

  // The bytes of the ids, joined. `skip_special`: control and unknown tokens give none. A space that
  // `encode` put before the text, or after a marker that is shown, is taken away.
  std::string decode(const int32_t* ids, size_t count, bool skip_special) const;

  std::string_view bytes(int32_t id) const { return vocabulary_.bytes(id); }
  Kind kind(int32_t id) const { return vocabulary_.kind(id); }
  size_t size() const { return vocabulary_.size(); }

  size_t num_dead_merges() const { return num_dead_merges_; }
  size_t num_missing_bytes() const { return num_missing_bytes_; }

 private:
  void add_marker(int32_t id);

  Vocabulary vocabulary_;
  Markers markers_;
  std::unique_ptr<Encoder> encoder_;
  bool add_space_prefix_ = false;
  size_t num_dead_merges_ = 0;
  size_t num_missing_bytes_ = 0;
};

}  // namespace pyrite
