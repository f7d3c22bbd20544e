#include "text/tokenizer.h"

#include <algorithm>

#include "text/byte_pair.h"
#include "text/sentence_piece.h"

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

}  // namespace

void Tokenizer::add_marker(int32_t id) {
  const Kind kind = vocabulary_.kind(id);
  if (is_marker(kind)) markers_.add(vocabulary_.bytes(id), id, is_special(kind));
}

std::unique_ptr<Tokenizer> Tokenizer::byte_pair(const TokenizerSource& source,
                                                const Strings& merges, const Splitter& splitter) {
  auto made = std::make_unique<Tokenizer>();
  made->vocabulary_.reserve(source.tokens.count, num_bytes(source.tokens));
  std::string bytes;
  for (size_t i = 0; i < source.tokens.count; ++i) {
    const std::string_view written = source.tokens[i];
    const Kind kind = kind_of(source.types[i]);
    bytes.clear();
    // Markers are written as they are, and so is a piece outside the alphabet: no text becomes it.
    const bool encoded = !is_marker(kind) && read_byte_alphabet(written, bytes);
    made->vocabulary_.add(encoded ? std::string_view(bytes) : written, kind, encoded);
    made->add_marker(int32_t(i));
  }
  made->vocabulary_.index();
  auto encoder =
      std::make_unique<BytePair>(made->vocabulary_, splitter, merges, source.unknown_id);
  made->num_dead_merges_ = encoder->num_dead_merges();
  made->num_missing_bytes_ = encoder->num_missing_bytes();
  made->encoder_ = std::move(encoder);
  return made;
}

std::unique_ptr<Tokenizer> Tokenizer::sentence_piece(const TokenizerSource& source,
                                                     const float* scores, bool add_space_prefix) {
  auto made = std::make_unique<Tokenizer>();
  made->vocabulary_.reserve(source.tokens.count, num_bytes(source.tokens));
  made->add_space_prefix_ = add_space_prefix;
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
    made->vocabulary_.add(spaced ? spaces_for_boundaries(written) : written, kind,
                          !is_special(kind));
    made->add_marker(int32_t(i));
  }
  made->vocabulary_.index();
  made->encoder_ = std::make_unique<SentencePiece>(made->vocabulary_, scores, add_space_prefix,
                                                   source.unknown_id);
  return made;
}

void Tokenizer::encode(const uint8_t* text, size_t size, std::span<const Span> spans,
                       std::vector<int32_t>& ids) const {
  size_t begin = 0;
  const auto encode_until = [&](size_t end) {
    if (begin < end) encoder_->encode(text + begin, end - begin, ids);
  };
  for (size_t at = markers_.candidate(text, size, 0); at < size;) {
    while (!spans.empty() && spans.front().end <= at) spans = spans.subspan(1);
    const bool inside = !spans.empty() && spans.front().begin <= at;
    const size_t control_end = inside ? spans.front().end : 0;
    const Markers::Found found = markers_.longest(text, size, at, control_end);
    if (found.id >= 0) {
      encode_until(at);
      ids.push_back(found.id);
      begin = at + found.size;
    }
    at = markers_.candidate(text, size, at + std::max<size_t>(found.size, 1));
  }
  encode_until(size);
}

std::string Tokenizer::decode(const int32_t* ids, size_t count, bool skip_special) const {
  std::string text;
  bool first = add_space_prefix_;
  for (size_t i = 0; i < count; ++i) {
    const Kind kind = vocabulary_.kind(ids[i]);
    if (skip_special && is_special(kind)) continue;
    const std::string_view piece = vocabulary_.bytes(ids[i]);
    const bool marker = is_marker(kind);
    text += first && !marker && piece.starts_with(' ') ? piece.substr(1) : piece;
    first = add_space_prefix_ && marker;
  }
  return text;
}

}  // namespace pyrite
