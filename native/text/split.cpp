// Pre-tokenizers, written as scanners. Beside each stands the pattern that it equals, as published in
// the tokenizer.json of the models and, by name, in llama.cpp's llama-vocab.cpp.
#include "text/split.h"

#include <algorithm>
#include <vector>

#include "text/split_scripts.h"

namespace pyrite {

namespace {

constexpr uint8_t kWord = kLetter | kNumber;

bool is_newline(const Glyph& glyph) { return glyph.code == '\r' || glyph.code == '\n'; }

// A glyph that is there and has none of the classes.
bool lacks(const Glyph& glyph, uint8_t classes) {
  return glyph.size != 0 && (glyph.classes & classes) == 0;
}

// The end of the run of glyphs for which `holds`, from `at`, of `most` glyphs at most.
template <class Holds>
size_t run(const Text& text, size_t at, Holds holds, size_t most = SIZE_MAX) {
  for (size_t count = 0; count < most; ++count) {
    const Glyph glyph = text.at(at);
    if (glyph.size == 0 || !holds(glyph)) break;
    at += glyph.size;
  }
  return at;
}

size_t run_of(const Text& text, size_t at, uint8_t classes, size_t most = SIZE_MAX) {
  return run(text, at, [=](const Glyph& glyph) { return (glyph.classes & classes) != 0; }, most);
}

size_t run_without(const Text& text, size_t at, uint8_t classes) {
  return run(text, at, [=](const Glyph& glyph) { return (glyph.classes & classes) == 0; });
}

// U+017F, the long s, is an s whose case is folded.
uint32_t folded(uint32_t code) {
  if (code >= 'A' && code <= 'Z') return code + ('a' - 'A');
  return code == 0x17F ? 's' : code;
}

// 's|'t|'re|'ve|'m|'ll|'d, and with kFold the same in (?i: )
template <bool kFold>
size_t contraction(const Text& text, size_t at) {
  if (text.at(at).code != '\'') return at;
  const Glyph first = text.at(at + 1);
  const Glyph second = text.at(at + 1 + first.size);
  const uint32_t a = kFold ? folded(first.code) : first.code;
  const uint32_t b = kFold ? folded(second.code) : second.code;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 1 + first.size;
  const bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
  return two ? at + 1 + first.size + second.size : at;
}

// \s+(?!\S)|\s+ : a run of spaces leaves its last one to the word that follows.
size_t blanks(const Text& text, size_t at) {
  size_t end = at;
  size_t last = at;
  for (Glyph glyph = text.at(at); glyph.classes & kSpace; glyph = text.at(end)) {
    last = end;
    end += glyph.size;
  }
  return end == text.end() || last == at ? end : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t lines_or_blanks(const Text& text, size_t at) {
  size_t line_end = at;
  size_t end = at;
  for (Glyph glyph = text.at(at); glyph.classes & kSpace; glyph = text.at(end)) {
    end += glyph.size;
    if (is_newline(glyph)) line_end = end;
  }
  return line_end != at ? line_end : blanks(text, at);
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2(const Text& text, size_t at) {
  if (const size_t end = contraction<false>(text, at); end != at) return end;
  const size_t start = at + (text.at(at).code == ' ');
  const Glyph glyph = text.at(start);
  if (glyph.classes & kLetter) return run_of(text, start, kLetter);
  if (glyph.classes & kNumber) return run_of(text, start, kNumber);
  if (lacks(glyph, kSpace)) return run_without(text, start, kSpace | kWord);
  return blanks(text, at);
}

// With kDigits = 3 and kInner = kLetter:
// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+
// kInner = kLetter | kMark puts [\p{L}\p{M}] for \p{L}, but for the one in the leading class; without
// kTail there is no [\r\n]*.
template <size_t kDigits, uint8_t kInner, bool kTail = true>
size_t cl100k(const Text& text, size_t at) {
  if (const size_t end = contraction<true>(text, at); end != at) return end;
  const Glyph first = text.at(at);
  if (first.classes & kInner) return run_of(text, at, kInner);
  if (first.classes & kNumber) return run_of(text, at, kNumber, kDigits);
  const size_t second = at + first.size;
  if (!is_newline(first) && (text.at(second).classes & kInner)) return run_of(text, second, kInner);
  const size_t start = at + (first.code == ' ');
  if (!lacks(text.at(start), kSpace | kNumber)) return lines_or_blanks(text, at);
  const size_t end = run_without(text, start, kSpace | kNumber | kInner);
  return kTail ? run(text, end, is_newline) : end;
}

// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
bool upper_like(const Glyph& glyph) {
  return (glyph.classes & (kLetter | kMark)) != 0 && (glyph.classes & kLower) == 0;
}

// [\p{Ll}\p{Lm}\p{Lo}\p{M}]
bool lower_like(const Glyph& glyph) {
  return (glyph.classes & (kLetter | kMark)) != 0 && (glyph.classes & kUpper) == 0;
}

// upper_like*lower_like+ : where no lower case follows the run, it gives back glyphs until it ends in
// one that is both.
size_t capitalised(const Text& text, size_t at) {
  size_t end = at;
  size_t both = at;
  for (Glyph glyph = text.at(end); upper_like(glyph); glyph = text.at(end)) {
    end += glyph.size;
    if (lower_like(glyph)) both = end;
  }
  const size_t lower_end = run(text, end, lower_like);
  return lower_end != end ? lower_end : both;
}

// [^\r\n\p{L}\p{N}]?upper_like*lower_like+|[^\r\n\p{L}\p{N}]?upper_like+lower_like*
size_t cased_word(const Text& text, size_t at) {
  const Glyph first = text.at(at);
  const bool leads = lacks(first, kWord) && !is_newline(first);
  const size_t second = at + (leads ? first.size : 0);
  if (const size_t end = capitalised(text, second); end != second) return end;
  if (const size_t end = capitalised(text, at); end != at) return end;
  // No lower case follows, or the first alternative would have matched.
  if (const size_t end = run(text, second, upper_like); end != second) return end;
  return run(text, at, upper_like);
}

// With kDigits = 3 and kSuffix:
// cased_word(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <size_t kDigits, bool kSuffix>
size_t o200k(const Text& text, size_t at) {
  if (const size_t end = cased_word(text, at); end != at) {
    return kSuffix ? contraction<true>(text, end) : end;
  }
  const Glyph first = text.at(at);
  if (first.classes & kNumber) return run_of(text, at, kNumber, kDigits);
  const size_t start = at + (first.code == ' ');
  if (!lacks(text.at(start), kSpace | kWord)) return lines_or_blanks(text, at);
  const size_t end = run_without(text, start, kSpace | kWord);
  return run(text, end, [](const Glyph& glyph) { return is_newline(glyph) || glyph.code == '/'; });
}

bool is_ascii_letter(const Glyph& glyph) {
  return glyph.code < 0x80 && (glyph.classes & kLetter) != 0;
}

// [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+
size_t deepseek3(const Text& text, size_t at) {
  constexpr uint8_t kInner = kLetter | kMark;
  constexpr uint8_t kPoint = kPunctuation | kSymbol;
  const Glyph first = text.at(at);
  const size_t second = at + first.size;
  if (first.code < 0x80 && (first.classes & kPoint)) {
    if (const size_t end = run(text, second, is_ascii_letter); end != second) return end;
  }
  if (first.classes & kInner) return run_of(text, at, kInner);
  const bool leads = lacks(first, kPoint) && !is_newline(first);
  if (leads && (text.at(second).classes & kInner)) return run_of(text, second, kInner);
  const size_t start = at + (first.code == ' ');
  if (text.at(start).classes & kPoint) return run(text, run_of(text, start, kPoint), is_newline);
  return lines_or_blanks(text, at);
}

// \p{N}
size_t one_number(const Text& text, size_t at) { return run_of(text, at, kNumber, 1); }

// \p{N}{1,3}
size_t three_numbers(const Text& text, size_t at) { return run_of(text, at, kNumber, 3); }

// \p{N}+
size_t all_numbers(const Text& text, size_t at) { return run_of(text, at, kNumber); }

// [0-9][0-9][0-9]
size_t three_digits(const Text& text, size_t at) {
  const auto digit = [](const Glyph& glyph) { return glyph.code >= '0' && glyph.code <= '9'; };
  const size_t end = run(text, at, digit, 3);
  return end == at + 3 ? end : at;
}

// [\p{P}$+<=>^~|]+, and with kBacktick also `
template <bool kBacktick>
size_t punctuation(const Text& text, size_t at) {
  return run(text, at, [](const Glyph& glyph) {
    if (glyph.classes & kPunctuation) return true;
    if (glyph.code >= 0x80 || !(glyph.classes & kSymbol)) return false;
    return kBacktick || glyph.code != '`';
  });
}

// Whether the character that byte-level vocabularies write for a byte is a number: digits, and of
// the Latin ones those of \u00B2\u00B3\u00B9\u00BC\u00BD\u00BE.
bool is_number_of_alphabet(uint8_t byte) {
  return (byte >= '0' && byte <= '9') || byte == 0xB2 || byte == 0xB3 || byte == 0xB9 ||
         (byte >= 0xBC && byte <= 0xBE);
}

// Digits behind ByteLevel, in tokenizer.json: the runs of such bytes, and what lies between them,
// which may be parts of characters.
size_t numbers_of_alphabet(const Text& text, size_t at) {
  const bool is_number = is_number_of_alphabet(text.byte(at));
  size_t end = at + 1;
  while (end < text.end() && is_number_of_alphabet(text.byte(end)) == is_number) ++end;
  return end;
}

// [\r\n]
size_t one_newline(const Text& text, size_t at) { return run(text, at, is_newline, 1); }

// \s?\p{L}+ and \s?\p{P}+
template <uint8_t kClass>
size_t after_space(const Text& text, size_t at) {
  const Glyph first = text.at(at);
  const size_t start = at + (first.classes & kSpace ? first.size : 0);
  const size_t end = run_of(text, start, kClass);
  return end != start ? end : at;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}
// | ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+
size_t exaone_moe(const Text& text, size_t at) {
  if (const size_t end = contraction<true>(text, at); end != at) return end;
  const Glyph first = text.at(at);
  if (first.classes & kNumber) return run_of(text, at, kNumber, 1);
  size_t end = at;
  if (lacks(first, kWord) && !is_newline(first)) end += first.size;
  if (text.at(end).classes & kLetter) {
    do {
      end = run_of(text, end + text.at(end).size, kMark);
      if (text.at(end).code == ' ' && (text.at(end + 1).classes & kLetter)) ++end;
    } while (text.at(end).classes & kLetter);
    return end;
  }
  const size_t start = at + (first.code == ' ');
  if (!lacks(text.at(start), kSpace | kWord)) return lines_or_blanks(text, at);
  return run(text, run_without(text, start, kSpace | kWord), is_newline, 1);
}

constexpr Match kGpt2[] = {gpt2, nullptr};
constexpr Match kSingleDigits[] = {one_number, gpt2, nullptr};
constexpr Match kLlama3[] = {cl100k<3, kLetter>, nullptr};
constexpr Match kQwen2[] = {cl100k<1, kLetter>, nullptr};
constexpr Match kQwen35[] = {cl100k<1, kLetter | kMark>, nullptr};
constexpr Match kGpt4o[] = {o200k<3, true>, nullptr};
constexpr Match kTekken[] = {o200k<1, false>, nullptr};
constexpr Match kDeepseek3[] = {three_numbers, han_and_kana, deepseek3, nullptr};
constexpr Match kDeepseekCoder[] = {one_newline,    after_space<kLetter>, after_space<kPunctuation>,
                                    han_and_hangul, one_number,           nullptr};
constexpr Match kDeepseek[] = {one_newline,          deepseek_letters, deepseek_punctuation,
                               trailing_blanks,      han_and_hangul,   one_number,
                               nullptr};
constexpr Match kSeedCoder[] = {cl100k<1, kLetter, false>, nullptr};
constexpr Match kMinicpm5[] = {three_numbers, cl100k<SIZE_MAX, kLetter>, nullptr};
constexpr Match kExaoneMoe[] = {exaone_moe, nullptr};
constexpr Match kLongcat[] = {cl100k<1, kLetter>, wide_punctuation, han_and_hangul, nullptr};
constexpr Match kYoutu[] = {youtu_scripts, o200k<1, true>, nullptr};
constexpr Match kBloom[] = {bloom, nullptr};
constexpr Match kViking[] = {bloom, one_number, nullptr};
constexpr Match kFalcon[] = {punctuation<true>, gpt2, three_digits, nullptr};
constexpr Match kFalconFolder[] = {punctuation<true>, gpt2, numbers_of_alphabet, three_digits,
                                   nullptr};
constexpr Match kDefault[] = {punctuation<false>, gpt2, all_numbers, three_digits, nullptr};

constexpr Splitter kSplitters[] = {
    {"a.x-4.0", false, kGpt2},
    {"bailingmoe", false, kQwen2},
    {"bailingmoe2", false, kQwen2},
    {"bloom", false, kBloom},
    {"chatglm-bpe", false, kLlama3},
    {"codeshell", false, kSingleDigits},
    {"command-r", false, kSingleDigits},
    {"dbrx", false, kLlama3},
    {"deepseek-coder", false, kDeepseekCoder},
    {"deepseek-llm", false, kDeepseek},
    {"deepseek-r1-qwen", false, kQwen2},
    {"deepseek-v3", false, kDeepseek3},
    {"default", false, kDefault},
    {"exaone", false, kSingleDigits},
    {"exaone-moe", false, kExaoneMoe},
    {"exaone4", false, kGpt2},
    {"f2llmv2", false, kQwen2},
    {"falcon", false, kFalcon},
    {"falcon-folder", false, kFalconFolder},
    {"falcon-h1", true, kLlama3},
    {"falcon3", true, kLlama3},
    {"gigachat", false, kGpt2},
    {"glm4", false, kLlama3},
    {"gpt-2", false, kGpt2},
    {"gpt-4o", false, kGpt4o},
    {"gpt3-finnish", false, kBloom},
    {"granite-docling", false, kGpt2},
    {"grok-2", false, kQwen2},
    {"hunyuan", false, kQwen2},
    {"hunyuan-dense", false, kDeepseek3},
    {"jais", false, kGpt2},
    {"jina-de", false, kGpt2},
    {"jina-es", false, kGpt2},
    {"jina-v2-de", false, kGpt2},
    {"jina-v2-es", false, kGpt2},
    {"jina-v5-nano", true, kLlama3},
    {"joyai-llm", false, kDeepseek3},
    {"kanana2", false, kGpt4o},
    {"kormo", false, kQwen2},
    {"lfm2", true, kLlama3},
    {"llada-moe", false, kQwen2},
    {"llama-bpe", true, kLlama3},
    {"llama-v3", true, kLlama3},
    {"llama3", true, kLlama3},
    {"llama4", false, kGpt4o},
    {"longcat", false, kLongcat},
    {"megrez", false, kQwen2},
    {"mellum", false, kGpt2},
    {"mellum2", false, kSingleDigits},
    {"midm-2.0", true, kLlama3},
    {"minerva-7b", false, kSingleDigits},
    {"minicpm5", true, kMinicpm5},
    {"minimax-m2", false, kGpt4o},
    {"modern-bert", false, kGpt2},
    {"mpt", false, kGpt2},
    {"olmo", false, kGpt2},
    {"phi-2", false, kGpt2},
    {"pixtral", true, kLlama3},
    {"poro-chat", false, kBloom},
    {"qwen2", false, kQwen2},
    {"qwen35", false, kQwen35},
    {"refact", false, kSingleDigits},
    {"seed-coder", false, kSeedCoder},
    {"smaug-bpe", false, kLlama3},
    {"smollm", false, kSingleDigits},
    {"solar-open", false, kQwen2},
    {"stablelm2", false, kQwen2},
    {"starcoder", false, kSingleDigits},
    {"talkie", false, kGpt4o},
    {"tekken", true, kTekken},
    {"trillion", false, kGpt2},
    {"viking", false, kViking},
    {"youtu", true, kYoutu},
};

}  // namespace

const Splitter* find_splitter(std::string_view name) {
  const auto found = std::find_if(std::begin(kSplitters), std::end(kSplitters),
                                  [&](const Splitter& splitter) { return splitter.name == name; });
  return found == std::end(kSplitters) ? nullptr : found;
}

std::string splitter_names() {
  std::string names;
  for (const Splitter& splitter : kSplitters) {
    names += names.empty() ? "" : ", ";
    names += splitter.name;
  }
  return names;
}

}  // namespace pyrite
