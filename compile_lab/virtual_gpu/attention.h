// Which kernel F.scaled_dot_product_attention takes on a CUDA device: torch's rules for a chip and a cuDNN, one table a
// kernel. A rule says whether the kernel takes the call; asked for its `reason`, it also warns why not, as torch does.
//
// What torch asks on every device stands in its own header (sdp_utils_cpp.h), and so is the installed torch's. What it
// asks of CUDA is compiled into libtorch_cuda, which the CPU build lacks: those rules are written here, after
// aten/src/ATen/native/transformers/cuda/sdp_utils.cpp of torch 2.11 to 2.15.
// The CUDA build of torch 2.13, told of sm75 to sm120, chose the same in 1,000 calls each over dtype, heads, mask, dropout, widths,
// lengths, layout and what is switched on (tests/virtual_gpu/ask_torch.py); other versions are read from the source only.
// Where none takes a call, 2.13 says "Invalid backend": its order ends with a backend that CUDA has not. Here the reasons are told.
#pragma once
#include <ATen/Context.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/headeronly/version.h>

#include <array>
#include <cmath>
#include <string>

namespace attention {

using sdp::SDPBackend;
using Call = sdp::sdp_params;
using Rule = bool (*)(const Call&, bool reason);

constexpr int kMinor = TORCH_VERSION_MINOR;  // 13 for torch 2.13

inline int capability = 0;  // 90 for 9.0
inline int cudnn = 0;       // 92000 for 9.20.0

template <typename... Words>
bool holds(bool it, bool reason, const Words&... why_not) {
  if (!it && reason) TORCH_WARN(why_not...);
  return it;
}

inline bool is(const c10::SymBool& fact) { return TORCH_GUARD_OR_FALSE(fact); }
inline bool half(const Call& call) { return call.query.dtype() == at::kHalf || call.query.dtype() == at::kBFloat16; }
inline c10::SymInt width(const at::Tensor& tensor) { return tensor.sym_size(-1); }
inline c10::SymInt length(const at::Tensor& tensor) { return tensor.sym_size(-2); }

inline bool is_dense(const Call& call, bool reason) {
  return holds(sdp::has_only_dense_inputs(call), reason, "The virtual GPU has no fused attention for nested tensors.");
}

template <int first, int last = 121>
bool chip(const Call&, bool reason) {
  return holds(first <= capability && capability <= last, reason,
               "It only supports gpu architectures in the range [sm", first, ", sm", last, "], and this one is sm", capability, ".");
}

template <bool reason_is_low_precision>
bool dtype(const Call& call, bool reason) {
  std::vector<at::ScalarType> known{at::kHalf};
  if (capability >= 80) known.push_back(at::kBFloat16);
  if (!reason_is_low_precision) known.push_back(at::kFloat);
  return sdp::check_tensor_dtype(call, known, reason);
}

template <bool kv_may_differ>
bool heads(const Call& call, bool reason) {
#if TORCH_VERSION_MINOR >= 14
  return sdp::check_batch_size_and_num_heads_dense<true, !kv_may_differ, true>(call, reason);
#else
  return sdp::check_batch_size_and_num_heads_dense<true, !kv_may_differ>(call, reason);
#endif
}

// --- flash ---

inline bool flash_width(const Call& call, bool reason) {
  const auto w = width(call.query);
  const bool same = is(w.sym_eq(width(call.key))) && is(w.sym_eq(width(call.value)));
  return holds(same && is(w.sym_le(256)), reason, "Flash attention requires q, k and v to have the same last dimension, ",
               "of at most 256. Got ", w, ", ", width(call.key), " and ", width(call.value), ".");
}

inline bool flash_wide_backward(const Call& call, bool reason) {
  const bool small_chip = (86 <= capability && capability <= 89) || capability == 120 || capability == 121;
  if (!small_chip || !sdp::input_requires_grad(call)) return true;
  const auto w = width(call.query);
  return holds(is(w.sym_le(192)) || (call.dropout == 0 && is(w.sym_gt(224))), reason, "Flash attention does not train ",
               "with a head dimension of ", w, " and dropout of ", call.dropout, " on an sm", capability, " gpu.");
}

inline bool flash_square_if_causal(const Call& call, bool reason) {
  return holds(!call.is_causal || is(length(call.query).sym_eq(length(call.key))), reason, "Flash attention does not ",
               "support the is_causal flag when seqlen_q != seqlen_k. Got ", length(call.query), " and ", length(call.key), ".");
}

inline bool flash_dtype(const Call& call, bool reason) {
  if (capability < 90 || !at::globalContext().userEnabledFA3SDP()) return dtype<true>(call, reason);
  return sdp::check_tensor_dtype(call, std::array{at::kFloat8_e4m3fn, at::kHalf, at::kBFloat16}, reason);
}

// --- memory-efficient ---

// Elements that a row's width must be a multiple of, for CUTLASS: 16 bytes where tensor cores are used.
inline int64_t alignment(const Call& call) {
  const bool tensor_cores = capability >= 80 || (capability >= 70 && half(call));
  return tensor_cores ? (half(call) ? 8 : 4) : 1;
}

inline bool efficient_width(const Call& call, bool reason) {
  const auto q = width(call.query), v = width(call.value);
  const auto fits = [&](const c10::SymInt& w) { return is(w.sym_gt(0)) && is((w % alignment(call)).sym_eq(0)); };
  return holds(is(q.sym_eq(width(call.key))) && fits(q) && fits(v), reason, "Mem efficient attention requires last ",
               "dimension of inputs to be divisible by ", alignment(call), ". Got ", q, ", ", width(call.key), " and ", v, ".");
}

inline bool efficient_offset(const Call& call, bool reason) {
  if (kMinor < 13 || capability < 80) return true;
  const int64_t bytes = alignment(call) * static_cast<int64_t>(call.query.element_size());
  const auto aligned = [&](const at::Tensor& tensor) {
    const auto offset = tensor.sym_storage_offset() * static_cast<int64_t>(tensor.element_size());
    return is(tensor.sym_numel().sym_eq(0)) || TORCH_GUARD_OR_TRUE((offset % bytes).sym_eq(0));
  };
  return holds(aligned(call.query) && aligned(call.key) && aligned(call.value), reason, "Mem efficient attention ",
               "requires the storage offsets of q, k and v to be aligned to ", bytes, " bytes.");
}

inline bool efficient_heads(const Call& call, bool reason) {
#if TORCH_VERSION_MINOR >= 14
  return heads<false>(call, reason);
#else
  return sdp::check_batch_size_and_num_heads_dense<false>(call, reason);  // no grouped queries before torch 2.14
#endif
}

// --- cuDNN ---

inline bool cudnn_enabled(const Call&, bool reason) {
  return holds(at::globalContext().userEnabledCuDNNSDP(), reason, "cuDNN attention has been runtime disabled.");
}

inline bool cudnn_deterministic(const Call&, bool reason) {
  const auto& user = at::globalContext();
  return holds(!user.deterministicAlgorithms() || user.deterministicAlgorithmsWarnOnly(), reason,
               "cuDNN SDPA is not deterministic.");
}

inline bool cudnn_dropout(const Call& call, bool reason) {
  return holds(kMinor < 13 || call.dropout * 16 == std::floor(call.dropout * 16), reason,
               "cuDNN dropout must be a multiple of 1/16. Got ", call.dropout, ".");
}

inline bool cudnn_count(const Call& call, bool reason) {
  const auto fits = [](const c10::SymInt& n) { return is(n.sym_le(65535)); };
  return holds(kMinor < 13 || (fits(call.query.sym_size(0)) && fits(call.query.sym_size(1))), reason,
               "cuDNN SDPA does not support a batch size or num_heads greater than 65535.");
}

inline bool wide_cudnn() { return capability == 90 && cudnn > 92200 && kMinor >= 14; }

inline bool cudnn_width(const Call& call, bool reason) {
  const auto q = width(call.query), v = width(call.value);
  const bool latent = (capability == 90 || capability == 100 || capability == 103) && is(q.sym_eq(192)) && is(v.sym_eq(128));
  const bool wide = kMinor < 14 ? capability == 90 : wide_cudnn();  // 2.13's CUDA build takes 192 and 256 on sm90
  const int64_t most = wide ? 256 : latent ? 192 : 128;
  const auto fits = [&](const c10::SymInt& w) { return is(w.sym_le(most)) && is((w % 8).sym_eq(0)); };
  return holds(fits(q) && fits(v), reason, "cuDNN SDPA requires a head_dim of at most ", most, " that is a multiple of 8. ",
               "Got ", q, " and ", v, ".");
}

inline bool cudnn_wide_backward(const Call& call, bool reason) {
  if (!wide_cudnn() || !sdp::input_requires_grad(call)) return true;
  const auto q = width(call.query), v = width(call.value);
  const auto are = [&](int64_t a, int64_t b) { return is(q.sym_eq(a)) && is(v.sym_eq(b)); };
  return holds((is(q.sym_le(128)) && is(v.sym_le(128))) || are(192, 128) || are(256, 256), reason,
               "cuDNN SDPA does not support backward with head dimensions ", q, " and ", v, ".");
}

inline bool cudnn_length(const Call& call, bool reason) {
  return holds(is(length(call.key).sym_ne(1)), reason, "cuDNN SDPA does not support a key/value length of 1.") &&
      holds(call.dropout == 0 || is(length(call.query).sym_ne(1)), reason,
            "cuDNN SDPA does not support a query length of 1 with dropout.");
}

// --- the tables, in torch's order ---

inline constexpr Rule kFlash[] = {
    sdp::check_runtime_disabled_flash, is_dense, sdp::check_tensor_shapes, sdp::check_for_attn_mask, flash_width,
    chip<80>, flash_wide_backward, flash_square_if_causal, flash_dtype, heads<false>,
    sdp::check_nonzero_sequence_lengths_dense, sdp::check_last_dim_stride_equals_1_dense<true>};
inline constexpr Rule kEfficient[] = {
    sdp::check_runtime_disabled_mem_efficient, is_dense, chip<50>, sdp::check_tensor_shapes, efficient_width,
    efficient_offset, sdp::check_nonzero_sequence_lengths_dense, sdp::check_last_dim_stride_equals_1_dense<false>,
    efficient_heads, dtype<false>};
inline constexpr Rule kCudnn[] = {
    cudnn_enabled, is_dense, sdp::check_tensor_shapes, cudnn_deterministic, dtype<true>, sdp::check_attn_mask_shape,
    chip<80>, cudnn_dropout, sdp::check_nonzero_sequence_lengths_dense, sdp::check_last_dim_stride_equals_1_dense<true>,
    heads<true>, cudnn_count, cudnn_width, cudnn_length, cudnn_wide_backward};

template <size_t n>
bool takes(const Rule (&rules)[n], const Call& call, bool reason) {
  for (const auto& rule : rules)
    if (!rule(call, reason)) return false;
  return true;
}

inline bool takes(SDPBackend kernel, const Call& call, bool reason = false) {
  switch (kernel) {
    case SDPBackend::flash_attention: return takes(kFlash, call, reason);
    case SDPBackend::efficient_attention: return takes(kEfficient, call, reason);
    case SDPBackend::cudnn_attention: return takes(kCudnn, call, reason);
    case SDPBackend::math: return at::globalContext().userEnabledMathSDP();
    default: return false;
  }
}

// The first kernel in the user's order that takes the call. Raises where none does, with a warning of the reason of each.
inline SDPBackend choose(Call call) {
  auto& user = at::globalContext();
  if (!user.userEnabledMathSDP() && !user.userEnabledFlashSDP() && !user.userEnabledMemEfficientSDP() &&
      !user.userEnabledCuDNNSDP())
    return SDPBackend::error;
#if TORCH_VERSION_MINOR >= 14
  call = sdp::normalize_unbatched_input(std::move(call));
#endif
  for (const auto kernel : user.sDPPriorityOrder())
    if (takes(kernel, call)) return kernel;
  const std::pair<const char*, SDPBackend> fused[] = {{"Memory efficient", SDPBackend::efficient_attention},
                                                      {"Flash attention", SDPBackend::flash_attention},
                                                      {"cuDNN attention", SDPBackend::cudnn_attention}};
  for (const auto& [name, kernel] : fused) {
    TORCH_WARN(name, " kernel not used because:");
    takes(kernel, call, true);
  }
  TORCH_CHECK(false, "No available kernel. Aborting execution.");
}

// cuDNN comes first on Hopper and Blackwell, if it is newer than 9.15.0.
inline void set_order() {
  if (cudnn <= 91500 || (capability != 90 && capability != 100 && capability != 103)) return;
  std::vector<int64_t> order;
  for (const auto kernel : {SDPBackend::cudnn_attention, SDPBackend::flash_attention, SDPBackend::efficient_attention,
                            SDPBackend::math})
    order.push_back(static_cast<int64_t>(kernel));
  at::globalContext().setSDPPriorityOrder(order);
}

}  // namespace attention
