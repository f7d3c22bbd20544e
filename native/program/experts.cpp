#include "program/experts.h"

#include <algorithm>
#include <cstring>

#include "program/tiles.h"

namespace pyrite {

namespace {

constexpr int kRowsAtOnce = 2;  // up to so many are routed and grouped in one chunk
constexpr int kFewRows = 16;
constexpr int kChunksOfFewRows = 24;  // of a member, as of a Linear
constexpr int kChunksPerMember = 6;
constexpr int kInnerChunks = 24;  // of a member: some units have few rows
constexpr size_t kSmallestChunkBytes = 16 * 1024;  // of weights

int num_rows(const ExpertsOp& op, const Step& step) { return step.num_rows(op.rows); }

int num_pairs(const ExpertsOp& op, const Step& step) {
  return num_rows(op, step) * op.routing.num_used;
}

void route_row(const ExpertsOp& op, const Step& step, Member& member, int row) {
  const size_t first = size_t(row) * op.routing.num_used;
  route(op.routing, op.scores.row(row), member.row, step.mixture->chosen.data() + first,
        step.mixture->weights.data() + first);
  step.kernels.prepare_row(op.in.row(row), op.width(), op.planes, op.forms,
                           step.activations + size_t(row) * op.row_bytes);
}

void group(const ExpertsOp& op, const Step& step) {
  step.mixture->group(num_rows(op, step), op.routing.num_used, op.routing.num_experts,
                      op.up.weight.num_panels());
}

// Some pairs of an expert, by some panels of one of its matrices.
struct Tile {
  int expert;
  int first_pair, num_pairs;
  int first_panel, num_panels;

  int first_lane() const { return first_panel * kPanelRows; }
  int num_lanes(const MatrixStack& weight) const {
    return std::min(num_panels * kPanelRows, weight.first.rows - first_lane());
  }
};

// Calls visit(tile) for at most kTilePanels panels at a time.
template <class Visit>
void each_panels(Tile tile, int end_panel, Visit visit) {
  for (; tile.first_panel < end_panel; tile.first_panel += kTilePanels) {
    tile.num_panels = std::min(kTilePanels, end_panel - tile.first_panel);
    visit(tile);
  }
}

// Sums (num_pairs, kTileStride) with the bias.
void multiply(const ExpertProduct& product, const Activations& in, int first_row, const Tile& tile,
              const Step& step, float* sums) {
  step.kernels.matmul(product.weight.at(tile.expert), tile.first_panel, tile.num_panels, in,
                      first_row, tile.num_pairs, sums, kTileStride);
  const float* bias = product.bias_of(tile.expert, tile.first_lane());
  if (bias == nullptr) return;
  for (int i = 0; i < tile.num_pairs; ++i) {
    float* lanes = sums + size_t(i) * kTileStride;
    step.kernels.rows.add(lanes, bias, tile.num_lanes(product.weight), lanes);
  }
}

// The prepared rows of a tile's pairs, adjacent: where they are, or copied by the member, who keeps
// them for the next chunk.
Activations rows_of(const ExpertsOp& op, const Step& step, Member& member, const Tile& tile) {
  Activations in = {op.width(), op.planes, op.forms, op.row_bytes, member.activations};
  const int32_t* rows = step.mixture->pair_rows.data() + tile.first_pair;
  if (rows[tile.num_pairs - 1] - rows[0] == tile.num_pairs - 1) {
    in.data = step.activations + size_t(rows[0]) * op.row_bytes;
    return in;
  }
  const bool is_there = member.prepared_by == &op && member.prepared_in == step.number &&
                        member.prepared_pair == tile.first_pair;
  for (int i = 0; !is_there && i < tile.num_pairs; ++i) {
    std::memcpy(in.data + size_t(i) * op.row_bytes,
                step.activations + size_t(rows[i]) * op.row_bytes, op.row_bytes);
  }
  member.prepared_by = &op;
  member.prepared_in = step.number;
  member.prepared_pair = tile.first_pair;
  return in;
}

float* inner_row(const ExpertsOp& op, const Step& step, int pair) {
  return step.mixture->inner.floats() + size_t(pair) * op.feed_forward();
}

void run_inner(const ExpertsOp& op, const Step& step, Member& member, const Tile& tile) {
  const Activations in = rows_of(op, step, member, tile);
  float* up = member.tile + kTileRows * kTileStride;
  if (op.gate.weight) multiply(op.gate, in, 0, tile, step, member.tile);
  multiply(op.up, in, 0, tile, step, up);
  const int lanes = tile.num_lanes(op.up.weight);
  for (int i = 0; i < tile.num_pairs; ++i) {
    const size_t at = size_t(i) * kTileStride;
    float* out = inner_row(op, step, tile.first_pair + i) + tile.first_lane();
    if (op.gate.weight) {
      step.kernels.rows.gate(op.activation, member.tile + at, up + at, lanes, out);
    } else {
      step.kernels.rows.activate(op.activation, up + at, lanes, out);
    }
  }
}

// Calls visit(tile) for the units [first, end): the panels that they are of each expert's tiles.
template <class Visit>
void each_tile(const Mixture& mixture, int panels, int first, int end, Visit visit) {
  const int32_t* starts = mixture.first_units.data();
  int hit = int(std::upper_bound(starts, starts + mixture.num_hit, first) - starts) - 1;
  while (first < end) {
    const int expert = mixture.hit[size_t(hit)];
    const Tiles tiles(mixture.num_pairs(expert));
    const int number = (first - starts[hit]) / panels;
    const int panel = (first - starts[hit]) % panels;
    const int count = std::min(panels - panel, end - first);
    const int skipped = number * tiles.rows;
    const Tile tile = {expert, mixture.first_pair(expert) + skipped,
                       std::min(tiles.rows, mixture.num_pairs(expert) - skipped), panel, count};
    visit(tile);
    first += count;
    if (first == starts[hit + 1]) ++hit;
  }
}

int outer_panels(const ExpertsOp& op, const Step& step) {
  const int chunks = num_rows(op, step) <= kFewRows ? kChunksOfFewRows : kChunksPerMember;
  const int fair = divide_up(op.down.weight.num_panels(), step.num_members * chunks);
  return std::min(kTilePanels, fair);
}

// Adds what a tile's pairs give to their rows.
void add_tile(const ExpertsOp& op, const Step& step, Member& member, const Tile& tile) {
  const Activations in = {op.feed_forward(), op.planes, op.inner_forms, op.inner_row_bytes,
                          step.activations};
  const int lanes = tile.num_lanes(op.down.weight);
  multiply(op.down, in, tile.first_pair, tile, step, member.tile);
  for (int i = 0; i < tile.num_pairs; ++i) {
    const size_t pair = size_t(tile.first_pair + i);
    float* sums = member.tile + size_t(i) * kTileStride;
    float* out = op.out.row(step.mixture->pair_rows[pair]) + tile.first_lane();
    step.kernels.rows.scale(sums, step.mixture->pair_weights[pair], lanes, sums);
    step.kernels.rows.add(out, sums, lanes, out);
  }
}

}  // namespace

MixtureSizes mixture_sizes(const ExpertsOp& op, int max_tokens) {
  const size_t pairs = size_t(max_tokens) * op.routing.num_used;
  return {pairs, size_t(op.routing.num_experts), pairs * op.feed_forward()};
}

int count_chunks(const RouteOp& op, const Step& step) {
  const int rows = num_rows(op.experts, step);
  return rows <= kRowsAtOnce ? std::min(rows, 1) : rows;
}

void run_chunk(const RouteOp& op, const Step& step, Member& member, int chunk) {
  const int rows = num_rows(op.experts, step);
  if (rows > kRowsAtOnce) return route_row(op.experts, step, member, chunk);
  for (int row = 0; row < rows; ++row) route_row(op.experts, step, member, row);
  group(op.experts, step);
}

int count_chunks(const GroupOp& op, const Step& step) {
  return num_rows(op.experts, step) <= kRowsAtOnce ? 0 : 1;
}

void run_chunk(const GroupOp& op, const Step& step, Member&, int) { group(op.experts, step); }

int count_chunks(const InnerOp& op, const Step& step) {
  const int64_t most = int64_t(num_pairs(op.experts, step)) * op.experts.up.weight.num_panels();
  return int(std::min<int64_t>(most, step.num_members * kInnerChunks));
}

void run_chunk(const InnerOp& op, const Step& step, Member& member, int chunk) {
  const ExpertsOp& experts = op.experts;
  const MatrixStack& weight = experts.up.weight;
  const Mixture& mixture = *step.mixture;
  const size_t bytes = weight.first.panel_bytes * (experts.gate.weight ? 2 : 1);
  const int smallest = std::max(1, int(kSmallestChunkBytes / bytes));
  const int units = std::max(smallest, divide_up(mixture.num_units(), count_chunks(op, step)));
  const int first = std::min(chunk * units, mixture.num_units());
  const int end = std::min(first + units, mixture.num_units());
  each_tile(mixture, weight.num_panels(), first, end, [&](const Tile& tile) {
    each_panels(tile, tile.first_panel + tile.num_panels,
                [&](const Tile& part) { run_inner(experts, step, member, part); });
  });
}

int count_chunks(const PrepareInnerOp& op, const Step& step) { return num_pairs(op.experts, step); }

void run_chunk(const PrepareInnerOp& op, const Step& step, Member&, int chunk) {
  const ExpertsOp& experts = op.experts;
  step.kernels.prepare_row(inner_row(experts, step, chunk), experts.feed_forward(), experts.planes,
                           experts.inner_forms,
                           step.activations + size_t(chunk) * experts.inner_row_bytes);
}

int count_chunks(const OuterOp& op, const Step& step) {
  if (num_rows(op.experts, step) == 0) return 0;
  return divide_up(op.experts.down.weight.num_panels(), outer_panels(op.experts, step));
}

void run_chunk(const OuterOp& op, const Step& step, Member& member, int chunk) {
  const ExpertsOp& experts = op.experts;
  const Mixture& mixture = *step.mixture;
  const int panels = outer_panels(experts, step);
  const int first = chunk * panels;
  Tile tile = {0, 0, 0, first, std::min(panels, experts.down.weight.num_panels() - first)};
  const size_t bytes = sizeof(float) * size_t(tile.num_lanes(experts.down.weight));
  for (int row = 0; row < num_rows(experts, step); ++row) {
    std::memset(experts.out.row(row) + tile.first_lane(), 0, bytes);
  }
  for (int hit = 0; hit < mixture.num_hit; ++hit) {
    tile.expert = mixture.hit[size_t(hit)];
    const int end = mixture.first_pair(tile.expert + 1);
    const int rows = Tiles(mixture.num_pairs(tile.expert)).rows;
    for (tile.first_pair = mixture.first_pair(tile.expert); tile.first_pair < end;
         tile.first_pair += rows) {
      tile.num_pairs = std::min(rows, end - tile.first_pair);
      add_tile(experts, step, member, tile);
    }
  }
}

}  // namespace pyrite
