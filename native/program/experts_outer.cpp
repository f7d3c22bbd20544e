// The second product of a mixture, and the sums over the experts of a row.
//
// Many rows: a chunk is of some columns of the result, for which it goes over all experts in ascending
// order, and adds what they give to their rows. Few rows wait for memory, which likes long streams: a
// chunk is some panels of one expert, or of two that follow each other; what they give is kept, pair by
// pair, and summed in a phase of its own. Both do the same operations in the same order for a row.

#include <algorithm>
#include <cstring>

#include "program/expert_tiles.h"
#include "program/experts.h"

namespace pyrite {

namespace {

constexpr int kChunksPerMember = 6;
constexpr int kSumColumns = 512;  // of a chunk

bool are_few(const ExpertsOp& op, const Step& step) { return step.num_rows(op.rows) <= kFewRows; }

// Panels of a chunk of many rows.
int panels_together(const ExpertsOp& op, const Step& step) {
  const int fair = divide_up(op.down.weight.num_panels(), step.num_members * kChunksPerMember);
  return std::min(kTilePanels, fair);
}

// What a tile's pairs give, not weighed yet: (num_pairs, kTileStride) in the member's tile.
void multiply_outer(const ExpertsOp& op, const Step& step, Member& member, const ExpertTile& tile) {
  const Activations in = {op.feed_forward(), op.planes, op.inner_forms, op.inner_row_bytes,
                          step.activations};
  multiply(op.down, in, tile.first_pair, tile, step, member.tile);
  add_adapters(op, op.down, Slot::kFirst, tile, step, member, member.tile);
}

// Calls take(sums, pair, weight) for what each pair gives.
template <class Take>
void each_given(const ExpertsOp& op, const Step& step, Member& member, const ExpertTile& tile,
                Take take) {
  multiply_outer(op, step, member, tile);
  for (int i = 0; i < tile.num_pairs; ++i) {
    const size_t pair = size_t(tile.first_pair + i);
    take(member.tile + size_t(i) * kTileStride, pair, step.mixture->pair_weights[pair]);
  }
}

float* given_row(const ExpertsOp& op, const Step& step, size_t pair) {
  return step.mixture->given.floats() + pair * op.width();
}

void keep_units(const ExpertsOp& op, const Step& step, Member& member, UnitRange units) {
  const Mixture& mixture = *step.mixture;
  const int panels = op.down.weight.num_panels();
  while (units.first < units.end) {
    const int expert = mixture.hit[size_t(units.first / panels)];
    const int panel = units.first % panels;
    const int count = std::min(panels - panel, units.end - units.first);
    units.first += count;
    const ExpertTile whole = {expert, mixture.first_pair(expert), mixture.num_pairs(expert), panel,
                              count};
    each_panels(whole, [&](const ExpertTile& tile) {
      const int lanes = tile.num_lanes(op.down.weight);
      each_given(op, step, member, tile, [&](const float* sums, size_t pair, float weight) {
        step.kernels.rows.scale(sums, weight, lanes, given_row(op, step, pair) + tile.first_lane());
      });
    });
  }
}

void add_columns(const ExpertsOp& op, const Step& step, Member& member, int first_panel,
                 int num_panels) {
  const Mixture& mixture = *step.mixture;
  ExpertTile tile = {0, 0, 0, first_panel, num_panels};
  const int lanes = tile.num_lanes(op.down.weight);
  for (int row = 0; row < step.num_rows(op.rows); ++row) {
    std::fill_n(op.out.row(row) + tile.first_lane(), lanes, 0.0f);
  }
  for (int hit = 0; hit < mixture.num_hit; ++hit) {
    tile.expert = mixture.hit[size_t(hit)];
    const int end = mixture.first_pair(tile.expert + 1);
    const int rows = Tiles(mixture.num_pairs(tile.expert)).rows;
    for (tile.first_pair = mixture.first_pair(tile.expert); tile.first_pair < end;
         tile.first_pair += rows) {
      tile.num_pairs = std::min(rows, end - tile.first_pair);
      each_given(op, step, member, tile, [&](float* sums, size_t pair, float weight) {
        float* out = op.out.row(mixture.pair_rows[pair]) + tile.first_lane();
        step.kernels.rows.scale(sums, weight, lanes, sums);
        step.kernels.rows.add(out, sums, lanes, out);
      });
    }
  }
}

}  // namespace

int count_chunks(const OuterOp& op, const Step& step) {
  const int panels = op.experts.down.weight.num_panels();
  const int rows = step.num_rows(op.experts.rows);
  if (are_few(op.experts, step)) {
    return unit_chunks(step, rows * op.experts.routing.num_used, panels);
  }
  return divide_up(panels, panels_together(op.experts, step));
}

void run_chunk(const OuterOp& op, const Step& step, Member& member, int chunk) {
  const MatrixStack& weight = op.experts.down.weight;
  if (are_few(op.experts, step)) {
    const int units = step.mixture->num_hit * weight.num_panels();
    return keep_units(op.experts, step, member,
                      {units, count_chunks(op, step), chunk, least_units(weight.first.panel_bytes)});
  }
  const int panels = panels_together(op.experts, step);
  const int first = chunk * panels;
  add_columns(op.experts, step, member, first, std::min(panels, weight.num_panels() - first));
}

int count_chunks(const SumOp& op, const Step& step) {
  const ExpertsOp& experts = op.experts;
  if (!are_few(experts, step)) return 0;
  return step.num_rows(experts.rows) * divide_up(experts.width(), kSumColumns);
}

void run_chunk(const SumOp& op, const Step& step, Member&, int chunk) {
  const ExpertsOp& experts = op.experts;
  const int parts = divide_up(experts.width(), kSumColumns);
  const int row = chunk / parts;
  const int column = chunk % parts * kSumColumns;
  const int width = std::min(kSumColumns, experts.width() - column);
  float* out = experts.out.row(row) + column;
  std::fill_n(out, width, 0.0f);
  const int used = experts.routing.num_used;
  const int32_t* pairs = step.mixture->pairs.data() + size_t(row) * used;
  for (int i = 0; i < used; ++i) {
    step.kernels.rows.add(out, given_row(experts, step, size_t(pairs[i])) + column, width, out);
  }
}

}  // namespace pyrite
