#include "program/step.h"

#include <algorithm>

namespace pyrite {

namespace {

// Pieces are taken by whoever is free, and hold no more than a quarter of a member's share each, so
// that the last one is not waited for long.
constexpr int kPiecesPerMember = 4;

Piece whole_tile(const Step& step, const TileCut& cut, int tile) {
  const RowRange& rows = step.tiles_of(cut.rows)[size_t(tile)];
  const int first = step.position(cut.rows, rows.first_row);
  const int last = step.position(cut.rows, rows.first_row + rows.num_rows - 1);
  const int seen = cut.window == 0 ? 0 : std::max(0, first - cut.window + 1);
  return {tile, seen / kSpanTokens, last / kSpanTokens + 1, -1};
}

const TileCut* find_cut(const std::vector<TileCut>& cuts, Rows rows, int window, int key_heads) {
  for (const TileCut& cut : cuts) {
    if (cut.rows == rows && cut.window == window && cut.key_heads == key_heads) return &cut;
  }
  return nullptr;
}

}  // namespace

void add_cut(std::vector<TileCut>& cuts, Rows rows, int window, int key_heads) {
  if (find_cut(cuts, rows, window, key_heads) == nullptr) {
    cuts.push_back({rows, window, key_heads, {}, {}});
  }
}

const TileCut& Step::cut(Rows rows, int window, int key_heads) const {
  return *find_cut(cuts, rows, window, key_heads);
}

bool Step::attends_outputs() const {
  return std::any_of(cuts.begin(), cuts.end(),
                     [](const TileCut& cut) { return cut.rows == Rows::kOutputs; });
}

// A tile is cut into more pieces than one only where each has half of the largest work at least.
void Step::reserve(int max_tokens) {
  tiles.reserve(size_t(max_tokens));
  runs.reserve(size_t(max_tokens));
  if (attends_outputs()) output_tiles.reserve(size_t(max_tokens));
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
  if (attends_outputs()) lay_out_outputs();
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

void Step::lay_out_outputs() {
  output_tiles.clear();
  int sequence = 0;
  for (int row = 0; row < batch.num_outputs; ++row) {
    const int before = sequence;
    while (batch.output_rows[row] >= batch.sequence_starts[sequence + 1]) ++sequence;
    const bool begins = output_tiles.empty() || sequence != before;
    if (begins || output_tiles.back().num_rows == tile_rows) {
      output_tiles.push_back({sequence, row, 0});
    }
    ++output_tiles.back().num_rows;
  }
}

int64_t Step::work_of(const TileCut& cut, const Piece& piece) const {
  const RowRange& rows = tiles_of(cut.rows)[size_t(piece.tile)];
  return int64_t(piece.end_span - piece.first_span) * rows.num_rows;
}

void Step::lay_out(TileCut& cut) const {
  cut.pieces.clear();
  cut.joined.clear();
  const int num_tiles = int(tiles_of(cut.rows).size());
  int64_t total = 0;
  for (int tile = 0; tile < num_tiles; ++tile) {
    total += work_of(cut, whole_tile(*this, cut, tile));
  }
  const int64_t largest = total * cut.key_heads / (kPiecesPerMember * num_members);
  int num_partials = 0;
  for (int tile = 0; tile < num_tiles; ++tile) {
    Piece piece = whole_tile(*this, cut, tile);
    const int64_t work = work_of(cut, piece);
    const int rows = tiles_of(cut.rows)[size_t(tile)].num_rows;
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
      piece.first_partial += int(work_of(cut, next));
      piece.first_span = next.end_span;
    }
  }
  std::sort(cut.pieces.begin(), cut.pieces.end(), [&](const Piece& a, const Piece& b) {
    const int64_t more = work_of(cut, a) - work_of(cut, b);
    if (more != 0) return more > 0;
    return a.tile != b.tile ? a.tile > b.tile : a.first_span < b.first_span;
  });
}

}  // namespace pyrite
