// What every operator of vllm/hq shares: argument checks, the current CUDA stream, launch errors.
//
// Host sources (.cpp) include it as <runtime/op.h>. It needs nothing of torch beyond the stable ABI, so the library
// runs on every torch from the target version on.
//
// CUDA sources (.cu) do without torch: under nvcc its headers bring in Thrust, whose internal names carry a hash of the
// folder that is compiled in, and no two machines would build the same bytes. For the same reason kernels live in a
// named namespace: nvcc puts its process id into the symbols of an unnamed one.
#pragma once

#include <cuda_runtime_api.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/shim_utils.h>

#include <cstdint>
#include <stdexcept>
#include <string>

// Only libtorch_cuda defines it. A strong reference would keep the library from loading in a CPU build of torch, where
// the operators' CPU bodies are tested.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index,
                                                                                   void** ret_stream);

namespace hq {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Throw `message` unless `condition` holds; it reaches Python as a RuntimeError.
inline void require(bool condition, const char* message) {
  if (!condition) throw std::runtime_error(message);
}

// A tensor as a message shows it: "Int [3, 5120]", "Long [70], not contiguous".
inline std::string described(const Tensor& tensor) {
  std::string text = std::string(torch::headeronly::toString(tensor.scalar_type())) + " [";
  for (int64_t i = 0; i < tensor.dim(); ++i) text += (i ? ", " : "") + std::to_string(tensor.size(i));
  return text + (tensor.is_contiguous() ? "]" : "], not contiguous");
}

inline cudaStream_t current_stream(const Tensor& tensor) {
  require(aoti_torch_get_current_cuda_stream != nullptr, "hq: this torch was built without CUDA");
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
  return static_cast<cudaStream_t>(stream);
}

// Throw if a launch was refused. What a kernel does wrong later shows at the next synchronisation.
inline void check_launch(const char* op, cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(op) + ": " + cudaGetErrorString(error));
}

}  // namespace hq
