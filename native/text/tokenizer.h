#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_pair.h"
#include "text/encoder.h"
#include "text/markers.h"
#include "text/sentence_piece.h"
#include "text/split.h"
#include "text/strings.h"
#include "text/vocabulary.h"

namespace pyrite {

// What a model's file says; only read while a tokenizer is made.
struct TokenizerSource {
  Strings tokens;
  const int32_t* types;  // one a token
  int32_t unknown_id;    // -1: none
  // One a token, bits of Mark. Null: control, unknown and user-defined tokens are markers, and all
  // others are pieces; SentencePiece makes its user-defined tokens by merging too.
  const uint8_t* marks = nullptr;
};

// What a token is besides its type.
enum Mark : uint8_t {
  kMarkMarker = 1,  // matched in the text as it stands
  kMarkLeft = 2,    // such a match takes the white space before it along
  kMarkRight = 4,   // and that after it
  kMarkLate = 8,    // it is matched between those that are not late, in text that is normalised
  kMarkPiece = 16,  // merges make it
};

// Where control tokens may stand in a text: [begin, end) in bytes, ascending, apart.
struct Span {
  size_t begin;
  size_t end;
};

// A marker in a text, with the white space that it takes along: [begin, end) in bytes.
struct Marked {
  size_t begin;
  size_t end;
  int32_t id;
};

// Text to token ids and back, for one vocabulary. Immutable once made, but for what it remembers of
// words, so threads may share it. Ids that it is given must be in the vocabulary.
class Tokenizer {
 public:
  static std::unique_ptr<Tokenizer> byte_pair(const TokenizerSource& source, const Strings& merges,
                                              const Words& words);
  // `strips`: decoding takes the space away that `encode` put before a text, or a marker's text.
  static std::unique_ptr<Tokenizer> sentence_piece(const TokenizerSource& source,
                                                   const float* scores, Spaces spaces, bool strips);
  static std::unique_ptr<Tokenizer> sentence_piece(const TokenizerSource& source,
                                                   const Strings& merges, Spaces spaces,
                                                   bool strips);
  // Control and unused tokens are no pieces.
  static std::unique_ptr<Tokenizer> greedy(const TokenizerSource& source);

  // Control tokens that lie wholly in one of `spans` become their ids. User-defined tokens always do.
  void encode(const uint8_t* text, size_t size, std::span<const Span> spans,
              std::vector<int32_t>& ids) const;

  // The markers that are not late, for who changes the text between them; and such a text's ids.
  // `first`: nothing stands before it. No control token is found there.
  std::vector<Marked> find_markers(const uint8_t* text, size_t size,
                                   std::span<const Span> spans) const;
  void encode_between(const uint8_t* text, size_t size, bool first,
                      std::vector<int32_t>& ids) const;

  // The bytes of the ids, joined. `skip_special`: control and unknown tokens give none. Where it
  // strips, a space that `encode` put before the text, or after a marker that is shown, is taken away.
  std::string decode(const int32_t* ids, size_t count, bool skip_special) const;

  std::string_view bytes(int32_t id) const { return vocabulary_.bytes(id); }
  Kind kind(int32_t id) const { return vocabulary_.kind(id); }
  size_t size() const { return vocabulary_.size(); }

  size_t num_dead_merges() const { return num_dead_merges_; }
  size_t num_missing_bytes() const { return num_missing_bytes_; }

 private:
  using Spans = std::span<const Span>;

  static std::unique_ptr<Tokenizer> pieces(const TokenizerSource& source, SpacePrefix prefix,
                                           bool strips);
  void add_marker(const TokenizerSource& source, int32_t id);

  // Calls gap(begin, end) and mark(Marked) for all of the text from `begin` on, in order. `spans`
  // loses those that were passed.
  template <class Gap, class OnMark>
  void scan(const Markers& markers, const uint8_t* text, size_t begin, size_t size, Spans& spans,
            const Gap& gap, const OnMark& mark) const;

  Vocabulary vocabulary_;
  Markers markers_;
  Markers late_;
  std::vector<uint8_t> marks_;  // empty, or one a token
  std::unique_ptr<Encoder> encoder_;
  bool strip_first_ = false;          // the space that begins a text
  bool strip_after_markers_ = false;  // that after a marker
  size_t num_dead_merges_ = 0;
  size_t num_missing_bytes_ = 0;
};

}  // namespace pyrite
