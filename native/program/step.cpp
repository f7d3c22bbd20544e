#include "program/step.h"

#include <algorithm>

namespace pyrite {

namespace {

// Pieces are taken by whoever is free, and hold no more than a quarter of a member's share each, so
// that the last one is not waited for long.
constexpr int kPiecesPerMember = 4;

Piece whole_tile(const Step& step, const TileCut& cut, int tile) {
  const RowRange& rows = step.tiles[size_t(tile)];
  const int32_t* positions = step.batch.positions + rows.first_row;
  const int seen = cut.window == 0 ? 0 : std::max(0, positions[0] - cut.window + 1);
  return {tile, seen / kSpanTokens, positions[rows.num_rows - 1] / kSpanTokens + 1, -1};
}

const TileCut* find_cut(const std::vector<TileCut>& cuts, int window, int key_heads) {
  for (const TileCut& cut : cuts) {
    if (cut.window == window && cut.key_heads == key_heads) return &cut;
  }
  return nullptr;
}

}  // namespace

void add_cut(std::vector<TileCut>& cuts, int window, int key_heads) {
  if (find_cut(cuts, window, key_heads) == nullptr) cuts.push_back({window, key_heads, {}, {}});
}

const TileCut& Step::cut(int window, int key_heads) const {
  return *find_cut(cuts, window, key_heads);
}

// A tile is cut into more pieces than one only where each has half of the largest work at least.
void Step::reserve(int max_tokens) {
  tiles.reserve(size_t(max_tokens));
  runs.reserve(size_t(max_tokens));
  for (TileCut& cut : cuts) {
    const size_t pieces = size_t(2 * kPiecesPerMember) * num_members;
    cut.pieces.reserve(size_t(max_tokens) + pieces);
    cut.joined.reserve(pieces);
  }
}

void Step::lay_out(const Batch& next) {
  batch = next;
  ++number;
  end_position = 0;
  for (int row = 0; row < batch.num_tokens; ++row) {
    end_position = std::max(end_position, batch.positions[row] + 1);
  }
  tiles.clear();
  runs.clear();
  one_tile_each = true;
  for (int sequence = 0; sequence < batch.num_sequences; ++sequence) lay_out_rows(sequence);
  for (TileCut& cut : cuts) lay_out(cut);
}

void Step::lay_out_rows(int sequence) {
  const int start = batch.sequence_starts[sequence];
  const int end = batch.sequence_starts[sequence + 1];
  one_tile_each &= end - start <= tile_rows;
  for (int row = start; row < end; row += tile_rows) {
    tiles.push_back({sequence, row, std::min(tile_rows, end - row)});
  }
  for (int row = start; row < end; row += runs.back().num_rows) {
    const int left = kPageTokens - batch.positions[row] % kPageTokens;
    runs.push_back({sequence, row, std::min(left, end - row)});
  }
}

int64_t Step::work_of(const Piece& piece) const {
  return int64_t(piece.end_span - piece.first_span) * tiles[size_t(piece.tile)].num_rows;
}

void Step::lay_out(TileCut& cut) const {
  cut.pieces.clear();
  cut.joined.clear();
  const int num_tiles = int(tiles.size());
  int64_t total = 0;
  for (int tile = 0; tile < num_tiles; ++tile) total += work_of(whole_tile(*this, cut, tile));
  const int64_t largest = total * cut.key_heads / (kPiecesPerMember * num_members);
  int num_partials = 0;
  for (int tile = 0; tile < num_tiles; ++tile) {
    Piece piece = whole_tile(*this, cut, tile);
    const int64_t work = work_of(piece);
    const int rows = tiles[size_t(tile)].num_rows;
    const int spans = std::max(1, int(largest / rows));
    const bool is_long = num_members > 1 && piece.end_span - piece.first_span > spans;
    if (!is_long || num_partials + work > max_partials) {
      cut.pieces.push_back(piece);
      continue;
    }
    piece.first_partial = num_partials;
    cut.joined.push_back(piece);
    num_partials += int(work);
    while (piece.first_span < piece.end_span) {
      Piece next = piece;
      next.end_span = std::min(piece.first_span + spans, piece.end_span);
      cut.pieces.push_back(next);
      piece.first_partial += int(work_of(next));
      piece.first_span = next.end_span;
    }
  }
  std::sort(cut.pieces.begin(), cut.pieces.end(), [&](const Piece& a, const Piece& b) {
    const int64_t more = work_of(a) - work_of(b);
    if (more != 0) return more > 0;
    return a.tile != b.tile ? a.tile > b.tile : a.first_span < b.first_span;
  });
}

}  // namespace pyrite
