// A CUDA device that is not there, as far as fake tensors need one: it has an index and streams, and of memory what the
// constants of a program take. These are real on a real GPU, under fake tensors too (torch.tensor(2.0, device="cuda")
// is lifted into a graph with its value), so here they lie in this process's memory, and the CPU computes with them.
//
// Loaded BEFORE `import torch`: the hooks register with the preferred priority, which then wins over those of a CUDA
// build (at the default priority torch 2.11 stops with "Key already registered"). `install` is called AFTER it: by then
// a CUDA build has registered its own device guard and its own choice of attention, and these must come last.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

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
  const bool learned = masked && mask->requires_grad();  // a bias that is trained: cuDNN's kernel has no gradient for it
  const bool ordinary = q.dim() == 4 && k.sym_size(-2) != 1 && !user.deterministicAlgorithms() && !learned;
  if (cudnn_first && user.userEnabledCuDNNSDP() && half && ordinary && fits_cudnn(q) && fits_cudnn(v)) return kCudnn;
  const bool square = !causal || q.sym_size(-2) == k.sym_size(-2);
  if (user.userEnabledFlashSDP() && half && capability >= 80 && !masked && same_width && width <= 256 && square)
    return kFlash;
  const int64_t align = half ? 8 : capability >= 80 ? 4 : 1;
  const bool fits = (half || dtype == at::kFloat) && width == k.sym_size(-1) && width % align == 0 && v.sym_size(-1) % align == 0;
  if (user.userEnabledMemEfficientSDP() && fits) return kEfficient;
  return kMath;
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) override {
    auto plain = c10::GetCPUAllocator()->allocate(nbytes);
    const auto free = plain.get_deleter();
    void* const data = plain.get();
    return {data, plain.release_context(), free, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t nbytes) const override { default_copy_data(to, from, nbytes); }
};

Memory memory;
const c10::DispatchKeySet kCuda(c10::DispatchKey::CUDA);
const c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, kCuda, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, kCuda, c10::dtype_or_default(dtype));
}

at::Tensor on(c10::Device device, const at::Tensor& tensor) {  // a tensor over the same memory
  if (!tensor.defined() || tensor.device().type() == device.type()) return tensor;
  return at::for_blob(tensor.data_ptr(), tensor.sizes())
      .strides(tensor.strides())
      .deleter([tensor](void*) {})
      .options(tensor.options().device(device))
      .target_device(device)
      .allocator(device.is_cuda() ? &memory : c10::GetCPUAllocator())
      .resizeable_storage()
      .make_tensor();
}

c10::IValue on(c10::Device device, const c10::IValue& value) {
  if (value.isTensor()) return on(device, value.toTensor());
  if (value.isDevice()) return device;
  if (value.isTensorList()) {
    c10::List<at::Tensor> moved;
    for (const at::Tensor& each : value.toTensorVector()) moved.push_back(on(device, each));
    return moved;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> moved;
    for (const auto& each : value.toOptionalTensorVector())
      moved.push_back(each ? std::optional(on(device, *each)) : std::nullopt);
    return moved;
  }
  return value;
}

// An output that the CPU's kernel has resized lies elsewhere now, and so does the device's.
void follow(const c10::IValue& given, const c10::IValue& moved) {
  if (!given.isTensor() || !given.toTensor().is_cuda() || given.toTensor().sizes() == moved.toTensor().sizes()) return;
  const auto resized = on(kDevice, moved.toTensor());
  auto* tensor = given.toTensor().unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(resized.storage());
  tensor->set_sizes_and_strides(resized.sizes(), resized.strides(), 0);
}

// Every operator of the device, boxed: the CPU's kernel on the same memory, and the results are the device's.
void computed_on_cpu(const c10::OperatorHandle& op, c10::Stack* stack) {
  at::AutoDispatchBelowADInplaceOrView below;
  const auto& arguments = op.schema().arguments();
  const auto& returns = op.schema().returns();
  const std::vector<c10::IValue> given(stack->end() - arguments.size(), stack->end());
  const auto is_view = [](const c10::Argument& each) { return each.alias_info() && !each.alias_info()->isWrite(); };
  const bool moves_nothing = std::any_of(returns.begin(), returns.end(), is_view) ||
      std::any_of(given.begin(), given.end(), [](const c10::IValue& each) { return each.isStorage(); });  // set_
  if (moves_nothing) return op.redispatchBoxed(kCpu, stack);
  std::vector<c10::IValue> moved;
  for (const auto& value : given) moved.push_back(on(at::kCPU, value));
  std::copy(moved.begin(), moved.end(), stack->end() - arguments.size());
  op.redispatchBoxed(kCpu, stack);
  for (size_t i = 0; i < given.size(); ++i) follow(given[i], moved[i]);
  auto result = stack->end() - returns.size();
  for (const auto& each : returns) {
    const auto written = std::find_if(arguments.begin(), arguments.end(), [&](const c10::Argument& argument) {
      return each.alias_info() && argument.alias_info() && *argument.alias_info() == *each.alias_info();
    });
    *result = written == arguments.end() ? on(kDevice, *result) : given[written - arguments.begin()];
    ++result;
  }
}

// What a CUDA build has of its own, and copy_, which has one kernel for all devices, are replaced by name.
void compute_on_cpu() {
  static std::vector<c10::RegistrationHandleRAII> kept;
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto kernel = [] { return c10::KernelFunction::makeFromBoxedFunction<&computed_on_cpu>(); };
  std::vector<c10::OperatorName> own{{"aten::copy_", ""}};
  for (const auto& name : dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CUDA))
    if (name.getNamespace() == "aten") own.push_back(name);
  for (const auto& name : own)
    kept.push_back(dispatcher.registerImpl(name, c10::DispatchKey::CUDA, kernel(), {}, nullptr, "virtual GPU"));
  kept.push_back(dispatcher.registerFallback(c10::DispatchKey::CUDA, kernel(), "virtual GPU"));
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
}

}  // namespace

extern "C" void install(int chip_capability, int prefer_cudnn) {
  capability = chip_capability;
  cudnn_first = prefer_cudnn;
  compute_on_cpu();
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention);
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)].store(new Guard());
}

namespace at {
static RegistererCUDAHooksRegistry fake_hooks("CUDAHooks", c10::REGISTRY_PREFERRED, CUDAHooksRegistry(),
                                              RegistererCUDAHooksRegistry::DefaultCreator<Hooks>,
                                              c10::demangle_type<Hooks>());
}
