// A CUDA device that is not there, as far as fake tensors need one: it has an index and streams, and no memory.
//
// Loaded BEFORE `import torch`: the hooks register with the preferred priority, which then wins over those of a CUDA
// build (at the default priority torch 2.11 stops with "Key already registered"). `install` is called AFTER it: by then
// a CUDA build has registered its own device guard and its own choice of attention, and these must come last.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

const c10::Device kDevice(c10::DeviceType::CUDA, 0);
int capability = 0;  // 90 for 9.0
bool cudnn_first = false;

struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream(kDevice); }
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return false; }
  at::DeviceIndex deviceCount() const override { return 1; }
  at::DeviceIndex getCurrentDevice() const override { return 0; }
  at::DeviceIndex current_device() const override { return 0; }
  int getNumGPUs() const override { return 1; }
};

enum Attention : int64_t { kMath = 0, kFlash = 1, kEfficient = 2, kCudnn = 3 };  // at::SDPBackend

// Which attention a CUDA build of torch would take: its order of preference, and of its conditions those that hang on
// the dtype, the head's width, the mask, the chip and the user's switches (sdpa_kernel).
int64_t choose_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const std::optional<at::Tensor>& mask, double, bool causal, std::optional<double>, bool) {
  const auto& user = at::globalContext();
  const auto dtype = q.scalar_type();
  const bool half = dtype == at::kHalf || (dtype == at::kBFloat16 && capability >= 80);
  const auto width = q.sym_size(-1);
  const bool same_width = width == k.sym_size(-1) && width == v.sym_size(-1);
  const bool masked = mask.has_value();
  const auto fits_cudnn = [&](const at::Tensor& t) { return t.sym_size(-1) % 8 == 0 && t.sym_size(-1) <= 256; };
  const bool ordinary = q.dim() == 4 && k.sym_size(-2) != 1 && !user.deterministicAlgorithms();
  if (cudnn_first && user.userEnabledCuDNNSDP() && half && ordinary && fits_cudnn(q) && fits_cudnn(v)) return kCudnn;
  const bool square = !causal || q.sym_size(-2) == k.sym_size(-2);
  if (user.userEnabledFlashSDP() && half && capability >= 80 && !masked && same_width && width <= 256 && square)
    return kFlash;
  const int64_t align = half ? 8 : capability >= 80 ? 4 : 1;
  const bool fits = (half || dtype == at::kFloat) && width == k.sym_size(-1) && width % align == 0 && v.sym_size(-1) % align == 0;
  if (user.userEnabledMemEfficientSDP() && fits) return kEfficient;
  return kMath;
}

}  // namespace

extern "C" void install(int chip_capability, int prefer_cudnn) {
  capability = chip_capability;
  cudnn_first = prefer_cudnn;
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention);
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)].store(new Guard());
}

namespace at {
static RegistererCUDAHooksRegistry fake_hooks("CUDAHooks", c10::REGISTRY_PREFERRED, CUDAHooksRegistry(),
                                              RegistererCUDAHooksRegistry::DefaultCreator<Hooks>,
                                              c10::demangle_type<Hooks>());
}
