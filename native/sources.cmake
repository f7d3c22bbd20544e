# Paths are relative to the top of the project. One line a file, one block a part.

# bindings
list(APPEND PYRITE_BINDING_SOURCES native/bindings.cpp)

# text: string tables, tokenizer
list(APPEND PYRITE_SOURCES native/text/strings.cpp)
list(APPEND PYRITE_SOURCES native/text/unicode.cpp)
list(APPEND PYRITE_SOURCES native/text/split.cpp)
list(APPEND PYRITE_SOURCES native/text/split_scripts.cpp)
list(APPEND PYRITE_SOURCES native/text/vocabulary.cpp)
list(APPEND PYRITE_SOURCES native/text/markers.cpp)
list(APPEND PYRITE_SOURCES native/text/merges.cpp)
list(APPEND PYRITE_SOURCES native/text/byte_pair.cpp)
list(APPEND PYRITE_SOURCES native/text/sentence_piece.cpp)
list(APPEND PYRITE_SOURCES native/text/greedy.cpp)
list(APPEND PYRITE_SOURCES native/text/tokenizer.cpp)
list(APPEND PYRITE_SOURCES native/text/json_reader.cpp)
list(APPEND PYRITE_SOURCES native/text/token_lists.cpp)
list(APPEND PYRITE_BINDING_SOURCES native/bind_text.cpp)
list(APPEND PYRITE_BINDING_SOURCES native/bind_tokenizer.cpp)
list(APPEND PYRITE_BINDING_SOURCES native/bind_token_lists.cpp)

# sampling
list(APPEND PYRITE_SOURCES native/sampling/philox.cpp)
list(APPEND PYRITE_SOURCES native/sampling/row.cpp)
list(APPEND PYRITE_SOURCES native/sampling/history.cpp)
list(APPEND PYRITE_SOURCES native/sampling/candidates.cpp)
list(APPEND PYRITE_SOURCES native/sampling/sampler.cpp)
list(APPEND PYRITE_SOURCES native/sampling/ngrams.cpp)
list(APPEND PYRITE_BINDING_SOURCES native/bind_sampling.cpp native/bind_ngrams.cpp)

# kernels: one table of functions per instruction set, packing of weights
list(APPEND PYRITE_SOURCES native/kernels/codebook.cpp native/kernels/file_block.cpp
     native/kernels/pack.cpp
     native/kernels/weight_type.cpp native/kernels/table.cpp native/kernels/limits.cpp
     native/kernels/limits_products.cpp native/kernels/limits_reads.cpp)
function(pyrite_isa name flags)
  set(source native/kernels/isa_${name}.cpp)
  list(APPEND PYRITE_SOURCES ${source})
  set(PYRITE_SOURCES ${PYRITE_SOURCES} PARENT_SCOPE)
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
endfunction()
pyrite_isa(scalar "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  # GCC 12 takes the undefined operands in its own AVX-512 header for mistakes.
  set(GCC_WARNS_FALSELY "-Wno-uninitialized;-Wno-maybe-uninitialized")
  set(AVX2 "-mavx2;-mfma;-mf16c")
  set(AVX512 "${AVX2};-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;${GCC_WARNS_FALSELY}")
  pyrite_isa(avx2 "${AVX2}")
  pyrite_isa(avxvnni "${AVX2};-mavxvnni")
  pyrite_isa(avx512 "${AVX512}")
  pyrite_isa(amx "${AVX512};-mamx-tile;-mamx-int8")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  pyrite_isa(neon "")
  pyrite_isa(dotprod "-march=armv8.2-a+dotprod")
  pyrite_isa(i8mm "-march=armv8.2-a+dotprod+i8mm")
endif()
if(PYRITE_SANITIZE)
  # Watching the end of every inlined lane's life takes minutes to compile.
  file(GLOB ISA_SOURCES RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" native/kernels/isa_*.cpp)
  set_property(SOURCE ${ISA_SOURCES} APPEND PROPERTY COMPILE_OPTIONS
    -fno-sanitize-address-use-after-scope)
endif()
list(APPEND PYRITE_BINDING_SOURCES native/bind_kernels.cpp)

# quantize: rows into blocks, by the lanes of each instruction set
list(APPEND PYRITE_SOURCES native/quantize/quantize.cpp native/quantize/isa_scalar.cpp)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND PYRITE_SOURCES native/quantize/isa_avx2.cpp native/quantize/isa_avx512.cpp)
  set_source_files_properties(native/quantize/isa_avx2.cpp PROPERTIES COMPILE_OPTIONS "${AVX2}")
  set_source_files_properties(native/quantize/isa_avx512.cpp PROPERTIES COMPILE_OPTIONS "${AVX512}")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  list(APPEND PYRITE_SOURCES native/quantize/isa_neon.cpp)
endif()
if(PYRITE_SANITIZE)
  # As above.
  file(GLOB QUANTIZE_ISA_SOURCES RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" native/quantize/isa_*.cpp)
  set_property(SOURCE ${QUANTIZE_ISA_SOURCES} APPEND PROPERTY COMPILE_OPTIONS
    -fno-sanitize-address-use-after-scope)
endif()
list(APPEND PYRITE_BINDING_SOURCES native/bind_quantize.cpp)

# program: thread team and executor of a lowered plan
list(APPEND PYRITE_SOURCES native/program/attendance.cpp native/program/attention.cpp
     native/program/binding.cpp native/program/elements.cpp native/program/experts.cpp
     native/program/experts_adapt.cpp native/program/experts_outer.cpp
     native/program/adapt.cpp native/program/head_linear.cpp native/program/mixture.cpp native/program/routing.cpp
     native/program/linear.cpp native/program/phase_cost.cpp native/program/populate.cpp
     native/program/program.cpp native/program/recurrence.cpp native/program/rope_table.cpp native/program/row_ops.cpp
     native/program/squares.cpp
     native/program/step.cpp native/program/team.cpp)
list(APPEND PYRITE_BINDING_SOURCES native/bind_executor.cpp native/bind_operations.cpp
     native/bind_rows.cpp native/bind_adapt.cpp native/bind_mixtures.cpp native/bind_recurrence.cpp
     native/bind_program.cpp native/bind_squares.cpp)
