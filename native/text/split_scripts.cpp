#include "text/split_scripts.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace pyrite {

namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

using Ranges = std::span<const Range>;  // ascending, apart

bool within(Ranges ranges, const Glyph& glyph) {
  const auto found = std::lower_bound(
      ranges.begin(), ranges.end(), glyph.code,
      [](const Range& range, uint32_t code) { return range.last < code; });
  return glyph.size != 0 && found != ranges.end() && found->first <= glyph.code;
}

// The end of the run of glyphs within the ranges.
size_t run_within(Ranges ranges, const Text& text, size_t at) {
  for (Glyph glyph = text.at(at); within(ranges, glyph); glyph = text.at(at)) at += glyph.size;
  return at;
}

// The same behind a space of any kind, which alone is no match.
size_t after_blank(Ranges ranges, const Text& text, size_t at) {
  const Glyph first = text.at(at);
  const size_t start = at + (first.classes & kSpace ? first.size : 0);
  if (const size_t end = run_within(ranges, text, start); end != start) return end;
  return run_within(ranges, text, at);
}

// \u4E00-\u9FA5 \u3040-\u309F \u30A0-\u30FF
constexpr Range kHanAndKana[] = {{0x3040, 0x30FF}, {0x4E00, 0x9FA5}};

// \u4E00-\u9FA5 \u0800-\u4E00 \uAC00-\uD7FF: the published range, Han and much more.
constexpr Range kHanAndHangul[] = {{0x0800, 0x9FA5}, {0xAC00, 0xD7FF}};

// Of ASCII and its full-width forms, quotes, and from the ideographic space to the full stop.
constexpr Range kDeepseekPunctuation[] = {{'!', '/'},       {':', '~'},       {0x2018, 0x201F},
                                  {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};

constexpr Range kLongcatPunctuation[] = {{0x2018, 0x201F}, {0x3000, 0x3002}, {0x300A, 0x300D},
                                         {0x3010, 0x3011}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}};

constexpr Range kHangul[] = {{0x3131, 0x318E}, {0xAC00, 0xD7A3}};
constexpr Range kYoutuPunctuation[] = {{0x2014, 0x2014}, {0x2018, 0x2019}, {0x201C, 0x201D},
                                       {0x2026, 0x2026}, {0x3001, 0x303F}, {0xFE30, 0xFE4F},
                                       {0xFF01, 0xFF01}, {0xFF0C, 0xFF0C}, {0xFF1A, 0xFF1B}};
constexpr Range kBopomofo[] = {{0x3105, 0x312F}};

// Letters of scripts that have case, as deepseek-llm lists them.
constexpr Range kLetters[] = {
    {0x41, 0x5A}, {0x61, 0x7A}, {0xB5, 0xB5}, {0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x1BA},
    {0x1BC, 0x1BF}, {0x1C4, 0x293}, {0x295, 0x2AF}, {0x370, 0x373}, {0x376, 0x377}, {0x37B, 0x37D},
    {0x37F, 0x37F}, {0x386, 0x386}, {0x388, 0x38A}, {0x38C, 0x38C}, {0x38E, 0x3A1}, {0x3A3, 0x3F5},
    {0x3F7, 0x481}, {0x48A, 0x52F}, {0x531, 0x556}, {0x10A0, 0x10C5}, {0x13A0, 0x13F5},
    {0x13F8, 0x13FD}, {0x1C90, 0x1CBA}, {0x1CBD, 0x1CBF}, {0x1D00, 0x1D2B}, {0x1D6B, 0x1D77},
    {0x1D79, 0x1D9A}, {0x1E00, 0x1F15}, {0x1F18, 0x1F1D}, {0x1F20, 0x1F45}, {0x1F48, 0x1F4D},
    {0x1F50, 0x1F57}, {0x1F59, 0x1F59}, {0x1F5B, 0x1F5B}, {0x1F5D, 0x1F5D}, {0x1F5F, 0x1F7D},
    {0x1F80, 0x1FB4}, {0x1FB6, 0x1FBC}, {0x1FBE, 0x1FBE}, {0x1FC2, 0x1FC4}, {0x1FC6, 0x1FCC},
    {0x1FD0, 0x1FD3}, {0x1FD6, 0x1FDB}, {0x1FE0, 0x1FEC}, {0x1FF2, 0x1FF4}, {0x1FF6, 0x1FFC},
    {0x2102, 0x2102}, {0x2107, 0x2107}, {0x210A, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211D},
    {0x2124, 0x2124}, {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212A, 0x212D}, {0x212F, 0x2134},
    {0x2139, 0x2139}, {0x213C, 0x213F}, {0x2145, 0x2149}, {0x214E, 0x214E}, {0x2183, 0x2184},
    {0x2C00, 0x2C7B}, {0x2C7E, 0x2CE4}, {0x2CEB, 0x2CEE}, {0x2CF2, 0x2CF3}, {0xA640, 0xA66D},
    {0xA680, 0xA69B}, {0xA722, 0xA76F}, {0xA771, 0xA787}, {0xA78B, 0xA78E}, {0xAB70, 0xABBF},
    {0xFB00, 0xFB06}, {0xFB13, 0xFB17}, {0xFF21, 0xFF3A}, {0xFF41, 0xFF5A}, {0x10400, 0x1044F},
    {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2},
    {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};

// What ends a word besides white space.
constexpr Range kBloomStops[] = {{'!', '!'},       {'(', ')'},       {',', ','},       {'.', '.'},
                                 {'?', '?'},       {'|', '|'},       {0x060C, 0x060C}, {0x06D4, 0x06D4},
                                 {0x0964, 0x0964}, {0x2026, 0x2026}, {0x3001, 0x3002}, {0xFF0C, 0xFF0C}};

}  // namespace

// [\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+
size_t han_and_kana(const Text& text, size_t at) { return run_within(kHanAndKana, text, at); }

// [\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+
size_t han_and_hangul(const Text& text, size_t at) { return run_within(kHanAndHangul, text, at); }

//  ?[\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002\u300A-\u300D\u3010\u3011]+
size_t wide_punctuation(const Text& text, size_t at) {
  const size_t start = at + (text.at(at).code == ' ');
  const size_t end = run_within(kLongcatPunctuation, text, start);
  return end != start ? end : at;
}

// [\uAC00-\uD7A3\u3131-\u318E]+|[...]+|[\u3105-\u312F]+|[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+
size_t youtu_scripts(const Text& text, size_t at) {
  for (const Ranges ranges : {Ranges(kHangul), Ranges(kYoutuPunctuation), Ranges(kBopomofo)}) {
    if (const size_t end = run_within(ranges, text, at); end != at) return end;
  }
  return run_within(kHanAndKana, text, at);
}

// \s?[kLetters]+
size_t deepseek_letters(const Text& text, size_t at) { return after_blank(kLetters, text, at); }

// \s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+
size_t deepseek_punctuation(const Text& text, size_t at) {
  return after_blank(kDeepseekPunctuation, text, at);
}

// \s+$ where the text holds no line break, or is one. A run of blanks that has been looked through
// from its first one is not looked through again.
size_t trailing_blanks(const Text& text, size_t at) {
  if (text.follows_space(at)) return at;
  size_t end = at;
  for (Glyph glyph = text.at(end); glyph.classes & kSpace; glyph = text.at(end)) end += glyph.size;
  return end == text.end() ? end : at;
}

//  ?[^(\s|.,!?...)]+
size_t bloom(const Text& text, size_t at) {
  const auto holds = [](const Glyph& glyph) {
    return glyph.size != 0 && (glyph.classes & kSpace) == 0 && !within(kBloomStops, glyph);
  };
  const size_t start = at + (text.at(at).code == ' ');
  size_t end = start;
  for (Glyph glyph = text.at(end); holds(glyph); glyph = text.at(end)) end += glyph.size;
  return end != start ? end : at;
}

}  // namespace pyrite
