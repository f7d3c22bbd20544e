// The tokenizer on whatever bytes: built from small vocabularies, fed with cut, joined and random
// text, alone and from several threads at once. Meant for the sanitizers; right ids are the Python
// tests' matter.

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "text/tokenizer.h"

namespace {

using pyrite::Tokenizer;

// Strings with an owner, for the sources of tokenizers.
struct Pieces {
  std::string data;
  std::vector<int64_t> starts;
  std::vector<int32_t> lengths;
  std::vector<int32_t> types;
  std::vector<float> scores;

  void add(const std::string& piece, int32_t type = 1, float score = 0) {
    starts.push_back(int64_t(data.size()));
    lengths.push_back(int32_t(piece.size()));
    types.push_back(type);
    scores.push_back(score);
    data += piece;
  }

  pyrite::Strings strings() const {
    return {reinterpret_cast<const uint8_t*>(data.data()), starts.data(), lengths.data(),
            starts.size()};
  }
};

std::string character(uint32_t code) {
  if (code < 0x80) return {char(code)};
  return {char(0xC0 | code >> 6), char(0x80 | (code & 0x3F))};
}

// The character of a byte in byte-level vocabularies.
std::string alphabet(int byte) {
  static int next = 0;
  const bool prints = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
  if (byte == 0) next = 0;
  return character(prints ? uint32_t(byte) : uint32_t(0x100 + next++));
}

// `marked`: markers are told by marks, with all that these can say, and not by types.
// `spaced`: a space is put before a text.
std::unique_ptr<Tokenizer> byte_level(const char* splitter, bool marked = false,
                                      bool spaced = false) {
  Pieces tokens;
  Pieces merges;
  for (int byte = 0; byte < 256; ++byte) tokens.add(alphabet(byte));
  for (const char* merge : {"a b", "ab ab", "\xC4\xA0 a", "b a", "a a", "aa aa", "x nothing", " ", ""}) {
    merges.add(merge);
  }
  for (const char* piece : {"ab", "abab", "\xC4\xA0" "a", "ba", "aa", "aaaa", "", "\xFF\xFE"}) {
    tokens.add(piece);
  }
  std::vector<uint8_t> marks(tokens.types.size(), pyrite::kMarkPiece);
  tokens.add("<s>", 3);
  tokens.add("<t>", 4);
  tokens.add("<t><t>", 4);
  marks.insert(marks.end(), {pyrite::kMarkMarker | pyrite::kMarkLeft,
                             pyrite::kMarkMarker | pyrite::kMarkLate | pyrite::kMarkRight,
                             pyrite::kMarkMarker | pyrite::kMarkLeft | pyrite::kMarkRight});
  const uint8_t* own_marks = marked ? marks.data() : nullptr;
  const pyrite::Splitter& found = *pyrite::find_splitter(splitter);
  return Tokenizer::byte_pair({tokens.strings(), tokens.types.data(), -1, own_marks},
                              merges.strings(), {found, found.whole_word_first, spaced});
}

// `merged`: by merges, and not by scores.
std::unique_ptr<Tokenizer> sentence_piece(pyrite::SpacePrefix prefix, bool merged, bool cuts = false) {
  Pieces tokens;
  tokens.add("<unk>", 2);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    tokens.add(name, 6);
  }
  tokens.add("<s>", 3);
  tokens.add("<t>", 4);
  tokens.add("<0xZZ>", 6);
  tokens.add("\xE2\x96\x81", 1, -3);
  tokens.add("\xE2\x96\x81" "a", 1, -1);
  tokens.add("b\xE2\x96\x81" "a", 1, -0.5f);
  tokens.add("ab", 1, 2);
  tokens.add("", 1, 2);
  tokens.add("\xE2\x96", 1, 1);
  const pyrite::TokenizerSource source = {tokens.strings(), tokens.types.data(), 0};
  const bool strips = prefix != pyrite::SpacePrefix::kNever;
  if (!merged) return Tokenizer::sentence_piece(source, tokens.scores.data(), {prefix}, strips);
  Pieces merges;
  for (const char* merge : {"a b", "\xE2\x96\x81 a", "b \xE2\x96\x81" "a", "a", ""}) {
    merges.add(merge);
  }
  return Tokenizer::sentence_piece(source, merges.strings(), {prefix, cuts}, strips);
}

std::unique_ptr<Tokenizer> greedy() {
  Pieces tokens;
  tokens.add("<s>", 3);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "\\x%02x", byte);
    tokens.add(name);
  }
  for (const char* piece : {"ab", "aba", "", "\\", "\\x", "\\x4", "\\n\\t", "\xE2\x96\x81", "\\xe2\\x96"}) {
    tokens.add(piece);
  }
  tokens.add("<t>", 4);
  return Tokenizer::greedy({tokens.strings(), tokens.types.data(), -1});
}

std::string random_text(std::mt19937& random, size_t parts) {
  static const std::string kParts[] = {
      "a",  "b",    "ab",       " ",    "  ",   "\n",       "\xE2\x96\x81", "\xE2\x96", "\xF0\x9F",
      "12", "'s",   "'\xC5\xBF", "<t>", "<s>",  "<",        "\xC3\xA9",     "\xCC\x81", "\xFF",
      "!?", "\r\n", "\xE6\xBC\xA2",     "A",    "\xC7\x85", std::string(1, '\0')};
  std::string text;
  for (size_t i = 0; i < parts; ++i) text += kParts[random() % std::size(kParts)];
  return text;
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text, bool special) {
  std::vector<int32_t> ids;
  // A copy of exactly that size: reading past its end is seen.
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  const pyrite::Span whole = {0, bytes.size()};
  tokenizer.encode(bytes.data(), bytes.size(), {&whole, special ? size_t(1) : size_t(0)}, ids);
  return ids;
}

void check_round_trips(const Tokenizer& tokenizer, bool lossless, int rounds) {
  std::mt19937 random(7);
  for (int i = 0; i < rounds; ++i) {
    const std::string text = random_text(random, random() % 24);
    for (const bool special : {false, true}) {
      const std::vector<int32_t> ids = encode(tokenizer, text, special);
      for (const int32_t id : ids) CHECK(id >= 0 && size_t(id) < tokenizer.size());
      const std::string back = tokenizer.decode(ids.data(), ids.size(), false);
      CHECK(!lossless || back == text);
    }
  }
  const std::string one_letter(100000, 'a');
  const std::vector<int32_t> ids = encode(tokenizer, one_letter, true);
  CHECK(tokenizer.decode(ids.data(), ids.size(), true) == one_letter);
}

void check_space_first() {
  const std::unique_ptr<Tokenizer> tokenizer = byte_level("gpt-2", false, true);
  for (const std::string text : {"", "a", " a", "\xFF", "ab ab"}) {
    const std::vector<int32_t> ids = encode(*tokenizer, text, false);
    const bool spaced = text.empty() || text[0] == ' ';
    CHECK(tokenizer->decode(ids.data(), ids.size(), false) == (spaced ? text : " " + text));
  }
}

void check_threads(const Tokenizer& tokenizer) {
  std::mt19937 random(11);
  const std::string text = random_text(random, 4000);
  std::vector<std::vector<int32_t>> ids(4);
  std::vector<std::thread> threads;
  for (auto& own : ids) threads.emplace_back([&] { own = encode(tokenizer, text, true); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& own : ids) CHECK(own == ids[0]);
}

}  // namespace

int main() {
  for (const char* splitter : {"gpt-2", "smollm", "qwen2", "llama-bpe", "qwen35", "gpt-4o", "tekken",
                               "deepseek-v3", "deepseek-coder", "deepseek-llm", "falcon",
                               "falcon-folder", "default"}) {
    check_round_trips(*byte_level(splitter), true, 300);
    check_threads(*byte_level(splitter));
  }
  check_round_trips(*byte_level("gpt-2", true), false, 1000);
  check_space_first();
  check_round_trips(*greedy(), true, 1000);
  check_threads(*greedy());
  using pyrite::SpacePrefix;
  for (const SpacePrefix prefix : {SpacePrefix::kNever, SpacePrefix::kAlways,
                                   SpacePrefix::kUnlessSpaced, SpacePrefix::kFirstUnlessSpaced}) {
    for (const bool merged : {false, true}) {
      check_round_trips(*sentence_piece(prefix, merged), false, 1000);
      check_threads(*sentence_piece(prefix, merged));
    }
    check_round_trips(*sentence_piece(prefix, true, true), false, 300);
  }
  return 0;
}
