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

#include "attention.h"

namespace {

const c10::Device kDevice(c10::DeviceType::CUDA, 0);

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

int64_t choose_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double>,
                         bool grouped) {
  return static_cast<int64_t>(attention::choose({q, k, v, mask, dropout, causal, grouped}));
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

extern "C" void install(int capability, int cudnn) {
  attention::capability = capability;
  attention::cudnn = cudnn;
  attention::set_order();
  compute_on_cpu();
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention);
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)].store(new Guard());
}

namespace at {
static RegistererCUDAHooksRegistry fake_hooks("CUDAHooks", c10::REGISTRY_PREFERRED, CUDAHooksRegistry(),
                                              RegistererCUDAHooksRegistry::DefaultCreator<Hooks>,
                                              c10::demangle_type<Hooks>());
}
