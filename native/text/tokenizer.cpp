#include "text/tokenizer.h"

#include <algorithm>

#include "text/greedy.h"
#include "text/unicode.h"

namespace pyrite {

namespace {

Kind kind_of(int32_t type) {
  return type >= 0 && type <= int32_t(Kind::kByte) ? Kind(type) : Kind::kUndefined;
}

bool is_special(Kind kind) { return kind == Kind::kControl || kind == Kind::kUnknown; }

bool is_marker(Kind kind) { return is_special(kind) || kind == Kind::kUser; }

size_t num_bytes(const Strings& strings) {
  size_t bytes = 0;
  for (size_t i = 0; i < strings.count; ++i) bytes += size_t(strings.lengths[i]);
  return bytes;
}

bool marked(const TokenizerSource& source, size_t id, Mark mark) {
  return (source.marks[id] & mark) != 0;
}

// Where the white space begins that ends at `end`.
size_t blank_start(const Text& text, size_t begin, size_t end) {
  for (size_t at = end; at > begin;) {
    if (--at > begin && end - at < 4 && text.at(at).code == 0xFFFD) continue;
    const Glyph glyph = text.at(at);
    if (at + glyph.size != end || !(glyph.classes & kSpace)) return end;
    end = at;
  }
  return end;
}

// Where the white space ends that begins at `at`.
size_t blank_end(const Text& text, size_t at) {
  for (Glyph glyph = text.at(at); glyph.classes & kSpace; glyph = text.at(at)) at += glyph.size;
  return at;
}

}  // namespace

void Tokenizer::add_marker(const TokenizerSource& source, int32_t id) {
  const Kind kind = vocabulary_.kind(id);
  if (source.marks == nullptr) {
    if (is_marker(kind)) markers_.add(vocabulary_.bytes(id), id, is_special(kind));
  } else if (marked(source, size_t(id), kMarkMarker)) {
    Markers& markers = marked(source, size_t(id), kMarkLate) ? late_ : markers_;
    markers.add(source.tokens[size_t(id)], id, is_special(kind));
  }
}

std::unique_ptr<Tokenizer> Tokenizer::byte_pair(const TokenizerSource& source,
                                                const Strings& merges, const Words& words) {
  auto made = std::make_unique<Tokenizer>();
  made->vocabulary_.reserve(source.tokens.count, num_bytes(source.tokens));
  std::string bytes;
  for (size_t i = 0; i < source.tokens.count; ++i) {
    const std::string_view written = source.tokens[i];
    const Kind kind = kind_of(source.types[i]);
    bytes.clear();
    // Markers are written as they are, and so is a piece outside the alphabet: no text becomes it.
    const bool piece = source.marks ? marked(source, i, kMarkPiece) : !is_marker(kind);
    const bool encoded = piece && read_byte_alphabet(written, bytes);
    made->vocabulary_.add(encoded ? std::string_view(bytes) : written, kind, encoded);
    made->add_marker(source, int32_t(i));
  }
  made->vocabulary_.index();
  if (source.marks) made->marks_.assign(source.marks, source.marks + source.tokens.count);
  auto encoder = std::make_unique<BytePair>(made->vocabulary_, words, merges, source.unknown_id);
  made->num_dead_merges_ = encoder->num_dead_merges();
  made->num_missing_bytes_ = encoder->num_missing_bytes();
  made->encoder_ = std::move(encoder);
  return made;
}

// All but the encoder.
std::unique_ptr<Tokenizer> Tokenizer::pieces(const TokenizerSource& source, SpacePrefix prefix,
                                             bool strips) {
  auto made = std::make_unique<Tokenizer>();
  made->vocabulary_.reserve(source.tokens.count, num_bytes(source.tokens));
  made->strip_first_ = strips;
  made->strip_after_markers_ = strips && prefix == SpacePrefix::kAlways;
  for (size_t i = 0; i < source.tokens.count; ++i) {
    const std::string_view written = source.tokens[i];
    Kind kind = kind_of(source.types[i]);
    const int byte = kind == Kind::kByte ? byte_of_piece(written) : -1;
    if (byte >= 0) {
      const char value = char(byte);
      made->vocabulary_.add({&value, 1}, kind, false);
      continue;
    }
    if (kind == Kind::kByte) kind = Kind::kUndefined;
    const bool spaced = !is_special(kind) && written.find('\xE2') != std::string_view::npos;
    const bool piece = source.marks ? marked(source, i, kMarkPiece) : !is_special(kind);
    made->vocabulary_.add(spaced ? spaces_for_boundaries(written) : written, kind, piece);
    made->add_marker(source, int32_t(i));
  }
  made->vocabulary_.index();
  if (source.marks) made->marks_.assign(source.marks, source.marks + source.tokens.count);
  return made;
}

std::unique_ptr<Tokenizer> Tokenizer::sentence_piece(const TokenizerSource& source,
                                                     const float* scores, Spaces spaces,
                                                     bool strips) {
  auto made = pieces(source, spaces.prefix, strips);
  made->encoder_ =
      std::make_unique<SentencePiece>(made->vocabulary_, scores, spaces, source.unknown_id);
  return made;
}

std::unique_ptr<Tokenizer> Tokenizer::sentence_piece(const TokenizerSource& source,
                                                     const Strings& merges, Spaces spaces,
                                                     bool strips) {
  auto made = pieces(source, spaces.prefix, strips);
  auto encoder =
      std::make_unique<SentencePiece>(made->vocabulary_, merges, spaces, source.unknown_id);
  made->num_dead_merges_ = encoder->num_dead_merges();
  made->encoder_ = std::move(encoder);
  return made;
}

std::unique_ptr<Tokenizer> Tokenizer::greedy(const TokenizerSource& source) {
  auto made = std::make_unique<Tokenizer>();
  made->vocabulary_.reserve(source.tokens.count, num_bytes(source.tokens));
  std::string bytes;
  for (size_t i = 0; i < source.tokens.count; ++i) {
    const Kind kind = kind_of(source.types[i]);
    const bool piece = !is_marker(kind) && kind != Kind::kUnused;
    bytes.clear();
    if (piece) read_escaped(source.tokens[i], bytes);
    made->vocabulary_.add(piece ? std::string_view(bytes) : source.tokens[i], kind, piece);
    made->add_marker(source, int32_t(i));
  }
  auto encoder = std::make_unique<Greedy>(made->vocabulary_, source.unknown_id);
  made->num_missing_bytes_ = encoder->num_missing_bytes();
  made->encoder_ = std::move(encoder);
  return made;
}

template <class Gap, class OnMark>
void Tokenizer::scan(const Markers& markers, const uint8_t* text, size_t begin, size_t size,
                     Spans& spans, const Gap& gap, const OnMark& mark) const {
  const Text whole(text, size);
  for (size_t at = markers.candidate(text, size, begin); at < size;) {
    while (!spans.empty() && spans.front().end <= at) spans = spans.subspan(1);
    const bool inside = !spans.empty() && spans.front().begin <= at;
    const size_t control_end = inside ? spans.front().end : 0;
    const Markers::Found found = markers.longest(text, size, at, control_end);
    size_t end = at + std::max<size_t>(found.size, 1);
    if (found.id >= 0) {
      const uint8_t sides = marks_.empty() ? uint8_t(0) : marks_[size_t(found.id)];
      const size_t start = sides & kMarkLeft ? blank_start(whole, begin, at) : at;
      if (sides & kMarkRight) end = blank_end(whole, end);
      if (begin < start) gap(begin, start);
      mark(Marked{start, end, found.id});
      begin = end;
    }
    at = markers.candidate(text, size, end);
  }
  if (begin < size) gap(begin, size);
}

void Tokenizer::encode(const uint8_t* text, size_t size, Spans spans,
                       std::vector<int32_t>& ids) const {
  Spans late_spans = spans;
  const auto push = [&](const Marked& marked) { ids.push_back(marked.id); };
  const auto encode_piece = [&](size_t begin, size_t end) {
    encoder_->encode(text + begin, end - begin, begin == 0, ids);
  };
  const auto encode_gap = [&](size_t begin, size_t end) {
    scan(late_, text, begin, end, late_spans, encode_piece, push);
  };
  scan(markers_, text, 0, size, spans, encode_gap, push);
}

std::vector<Marked> Tokenizer::find_markers(const uint8_t* text, size_t size, Spans spans) const {
  std::vector<Marked> found;
  scan(markers_, text, 0, size, spans, [](size_t, size_t) {},
       [&](const Marked& marked) { found.push_back(marked); });
  return found;
}

void Tokenizer::encode_between(const uint8_t* text, size_t size, bool first,
                               std::vector<int32_t>& ids) const {
  Spans none;
  const auto encode_piece = [&](size_t begin, size_t end) {
    encoder_->encode(text + begin, end - begin, first && begin == 0, ids);
  };
  scan(late_, text, 0, size, none, encode_piece,
       [&](const Marked& marked) { ids.push_back(marked.id); });
}

std::string Tokenizer::decode(const int32_t* ids, size_t count, bool skip_special) const {
  std::string text;
  bool first = strip_first_;
  for (size_t i = 0; i < count; ++i) {
    const Kind kind = vocabulary_.kind(ids[i]);
    if (skip_special && is_special(kind)) continue;
    const std::string_view piece = vocabulary_.bytes(ids[i]);
    const bool marker = is_marker(kind);
    text += first && !marker && piece.starts_with(' ') ? piece.substr(1) : piece;
    first = strip_after_markers_ && marker;
  }
  return text;
}

}  // namespace pyrite
