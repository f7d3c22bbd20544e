#pragma once

namespace pyrite {

// Seconds that a phase of a step costs a team of so many members beyond its work, when there is a
// chunk of a few microseconds for each of them: at best, for others share the machine.
double phase_seconds(int num_threads);

}  // namespace pyrite
