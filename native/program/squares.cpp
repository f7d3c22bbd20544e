#include "program/squares.h"

namespace pyrite {

namespace {

void add_row(Squares& squares, int matrix, const float* row, int width) {
  double* sums = squares.sums.data() + size_t(matrix) * size_t(width);
  for (int column = 0; column < width; ++column) {
    sums[column] += double(row[column]) * double(row[column]);
  }
  ++squares.counts[size_t(matrix)];
}

}  // namespace

int count_chunks(const SquaresOp& op, const Step& step) {
  return step.num_rows(op.input.rows) > 0 ? 1 : 0;
}

int count_chunks(const ExpertSquaresOp& op, const Step& step) {
  return step.num_rows(op.rows) > 0 ? 1 : 0;
}

void run_chunk(const SquaresOp& op, const Step& step, Member& member, int) {
  for (int row = 0; row < step.num_rows(op.input.rows); ++row) {
    const float* columns = input_row(op.input, step, member, row);
    const int head_width = op.input.in.width / op.heads;
    for (int head = 0; head < op.heads; ++head) {
      add_row(*op.squares, head, columns + size_t(head) * head_width, head_width - op.carried);
    }
  }
}

void run_chunk(const ExpertSquaresOp& op, const Step& step, Member&, int) {
  const Mixture& mixture = *step.mixture;
  for (int hit = 0; hit < mixture.num_hit; ++hit) {
    const int expert = mixture.hit[size_t(hit)];
    const int end = mixture.first_pair(expert + 1);
    for (int pair = mixture.first_pair(expert); pair < end; ++pair) {
      const float* inner = mixture.inner.floats() + size_t(pair) * size_t(op.feed_forward);
      add_row(*op.outer, expert, op.in.row(mixture.pair_rows[size_t(pair)]), op.in.width);
      add_row(*op.inner, expert, inner, op.feed_forward);
    }
  }
}

}  // namespace pyrite
