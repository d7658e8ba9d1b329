// embedding_dequant as an operator: what it demands of its arguments, its CPU body, its registration. The format of the
// table and the CUDA body are described in embedding_dequant.cu.
#include "embedding_dequant.h"

#include <runtime/op.h>
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <climits>

namespace hq::embedding {
namespace {

// Check what both bodies rely on. All of it is known to the host.
Shape checked(const Tensor& ids, const Tensor& weight_packed, const Tensor& weight_scale, int64_t num_bits) {
  const auto fail = [](const std::string& problem) { throw std::runtime_error("hq::embedding_dequant: " + problem); };
  if (num_bits != 4 && num_bits != 8) fail("num_bits must be 4 or 8, not " + std::to_string(num_bits));
  if (ids.scalar_type() != ScalarType::Long || ids.dim() != 1 || !ids.is_contiguous())
    fail("ids must be contiguous int64 [n], not " + described(ids));
  if (weight_packed.scalar_type() != ScalarType::Int || weight_packed.dim() != 2 || !weight_packed.is_contiguous())
    fail("weight_packed must be contiguous int32 [rows, hidden * num_bits / 32], not " + described(weight_packed));
  const ScalarType type = weight_scale.scalar_type();
  if ((type != ScalarType::BFloat16 && type != ScalarType::Half) || weight_scale.dim() != 2 ||
      !weight_scale.is_contiguous())
    fail("weight_scale must be contiguous bfloat16 or float16 [rows, groups], not " + described(weight_scale));
  if (ids.device() != weight_packed.device() || weight_scale.device() != weight_packed.device())
    fail("ids, weight_packed and weight_scale must be on one device");

  const int64_t rows = weight_packed.size(0);
  const int64_t hidden = weight_packed.size(1) * 32 / num_bits;
  const int64_t groups = weight_scale.size(1);
  if (weight_scale.size(0) != rows)
    fail("weight_packed has " + std::to_string(rows) + " rows and weight_scale " +
         std::to_string(weight_scale.size(0)));
  if (hidden == 0 || hidden % kUnit || hidden > kMaxHidden)
    fail("hidden must be a multiple of 8 up to 524288, not " + std::to_string(hidden));
  if (groups == 0 || hidden % groups || (hidden / groups) % kUnit)
    fail("hidden " + std::to_string(hidden) + " does not split into " + std::to_string(groups) +
         " groups of a multiple of 8 values");
  if (ids.numel() > INT_MAX) fail("at most 2147483647 ids, not " + std::to_string(ids.numel()));
  if (reinterpret_cast<uintptr_t>(weight_packed.const_data_ptr()) % num_bits)  // one load takes num_bits bytes
    fail("weight_packed must start at a multiple of " + std::to_string(num_bits) + " bytes");
  return {ids.numel(), rows, static_cast<int>(hidden), static_cast<int>(groups)};
}

Tensor embedding_dequant_cuda(const Tensor& ids, const Tensor& weight_packed, const Tensor& weight_scale,
                              int64_t num_bits) {
  const Shape shape = checked(ids, weight_packed, weight_scale, num_bits);
  const torch::stable::accelerator::DeviceGuard guard(weight_packed.get_device_index());
  Tensor out = torch::stable::new_empty(weight_scale, {shape.n, int64_t{shape.hidden}});
  if (shape.n == 0) return out;
  const auto type = weight_scale.scalar_type() == ScalarType::BFloat16 ? ScaleType::kBFloat16 : ScaleType::kHalf;
  check_launch("hq::embedding_dequant",
               dequant_rows(out.mutable_data_ptr(), static_cast<const int64_t*>(ids.const_data_ptr()),
                            weight_packed.const_data_ptr(), weight_scale.const_data_ptr(), type,
                            static_cast<int>(num_bits), shape, current_stream(weight_packed)));
  return out;
}

template <typename T>
void dequant_on_host(const Tensor& out, const Tensor& ids, const Tensor& weight_packed, const Tensor& weight_scale,
                     int bits, Shape shape) {
  const auto* const id = static_cast<const int64_t*>(ids.const_data_ptr());
  const auto* const words = static_cast<const uint32_t*>(weight_packed.const_data_ptr());
  const auto* const scales = static_cast<const T*>(weight_scale.const_data_ptr());
  auto* const to = static_cast<T*>(out.mutable_data_ptr());
  const int per_word = 32 / bits;
  const int group = shape.hidden / shape.groups;
  const uint32_t mask = (1u << bits) - 1;
  const int offset = 1 << (bits - 1);
  for (int64_t row = 0; row < shape.n; ++row) {
    if (id[row] < 0 || id[row] >= shape.rows)
      throw std::runtime_error("hq::embedding_dequant: id " + std::to_string(id[row]) + " at position " +
                               std::to_string(row) + " is outside the table of " + std::to_string(shape.rows) +
                               " rows");
    const uint32_t* const from = words + id[row] * (shape.hidden / per_word);
    const T* const scale = scales + id[row] * shape.groups;
    for (int i = 0; i < shape.hidden; ++i) {
      const auto code = static_cast<int>((from[i / per_word] >> (i % per_word * bits)) & mask);
      to[row * shape.hidden + i] = T(static_cast<float>(code - offset) * static_cast<float>(scale[i / group]));
    }
  }
}

Tensor embedding_dequant_cpu(const Tensor& ids, const Tensor& weight_packed, const Tensor& weight_scale,
                             int64_t num_bits) {
  const Shape shape = checked(ids, weight_packed, weight_scale, num_bits);
  Tensor out = torch::stable::new_empty(weight_scale, {shape.n, int64_t{shape.hidden}});
  auto* const run = weight_scale.scalar_type() == ScalarType::BFloat16 ? dequant_on_host<torch::headeronly::BFloat16>
                                                                       : dequant_on_host<torch::headeronly::Half>;
  run(out, ids, weight_packed, weight_scale, static_cast<int>(num_bits), shape);
  return out;
}

}  // namespace
}  // namespace hq::embedding

STABLE_TORCH_LIBRARY_FRAGMENT(hq, m) {
  m.def("embedding_dequant(Tensor ids, Tensor weight_packed, Tensor weight_scale, int num_bits) -> Tensor");
}
STABLE_TORCH_LIBRARY_IMPL(hq, CUDA, m) {
  m.impl("embedding_dequant", TORCH_BOX(&hq::embedding::embedding_dequant_cuda));
}
STABLE_TORCH_LIBRARY_IMPL(hq, CPU, m) { m.impl("embedding_dequant", TORCH_BOX(&hq::embedding::embedding_dequant_cpu)); }
