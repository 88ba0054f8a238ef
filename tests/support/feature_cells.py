"""Cells that each use one feature of torch or Python: under the magic they print and leave behind what they do without.

A cell prints what its instruments saw. ``SETUP`` runs before each, so that two runs of a cell start alike. Options
behind the name are those of the magic; :data:`DIFFED` cells run once more with ``--diff``.
"""

from __future__ import annotations

SETUP = """
import copy, gc, os, pickle, sys, tempfile, threading, warnings, weakref
import torch
from torch import nn
if "_environment" not in globals():
    _environment = dict(os.environ)
os.environ.clear()
os.environ.update(_environment)
sys.setrecursionlimit(1000)
torch._dynamo.reset()
torch._dynamo.utils.counters.clear()
torch._dynamo.utils.clear_compilation_metrics()
torch._dynamo.utils.compilation_time_metrics.clear()
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
    def forward(self, x):
        return torch.relu(self.lin(x)) + 1

net, x = Net(), torch.randn(2, 4)
"""

LEFT = """
import faulthandler as _f, hashlib as _h, logging as _l, multiprocessing as _m, signal as _s, torch._dynamo.utils as _u
from torch._C._dynamo.eval_frame import get_eval_frame_isolate_recompiles_id as _region
from torch._dynamo.eval_frame import _debug_get_cache_entry_list as _entries
from torch.overrides import _get_current_function_mode_stack as _modes
def _left():
    named = {n: v.__code__ for n, v in globals().items() if hasattr(v, "__code__") and not n.startswith("_")}
    named |= {n: v.forward.__code__ for n, v in globals().items() if isinstance(v, type) and issubclass(v, nn.Module)}
    return {
        "environment": sorted(os.environ.items()),
        "recursion limit": sys.getrecursionlimit(),
        "counters": {k: dict(v) for k, v in _u.counters.items() if v},
        "compile times": sorted(_u.compilation_time_metrics),
        "metrics": len(_u.get_compilation_metrics()),
        "entries": {n: len(_entries(code)) for n, code in named.items()},
        "region": _region(),
        "filters": len(warnings.filters),
        "tracers": (sys.gettrace(), sys.getprofile(), threading.gettrace()),
        "faulthandler": _f.is_enabled(),
        "random": _h.md5(torch.get_rng_state().numpy().tobytes()).hexdigest(),
        "modes": (len(_modes()), torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": (torch.get_num_threads(), sorted(t.name for t in threading.enumerate())),
        "signals": [str(_s.getsignal(n)) for n in (_s.SIGINT, _s.SIGALRM, _s.SIGTERM)],
        "start method": _m.get_start_method(allow_none=True),
        "children": len(_m.active_children()),
        "loggers": [n for n, v in _l.root.manager.loggerDict.items() if n[:5] == "torch" and getattr(v, "level", 0)],
        "default": (str(torch.get_default_dtype()), str(torch.get_default_device())),
    }
"""
"""What a cell leaves in the process; the names begin with an underscore, so that nothing here is the cell's."""

CELLS: dict[str, str] = {
    "is_compiling": """
import random
class Asks(nn.Module):
    def forward(self, x):
        if torch.compiler.is_compiling() or torch.compiler.is_dynamo_compiling():
            return x * 0
        return x + random.random()
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.asks, self.count = Asks(), 0
    def forward(self, x):
        self.count += 1
        return self.asks(torch.relu(x))
random.seed(0)
inner = nn.Sequential(nn.Linear(4, 4), Inner())
for size in (2, 2, 3):
    print(Asks()(torch.ones(size)), inner(torch.ones(size, 4)), inner[1].count)
print(random.random(), torch.rand(1))
""",
    "fast paths": """
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
values = torch.randn(2, 5, 8)
with torch.no_grad():
    print(layer(values).double().sum().item(), attention(values, values, values)[0].double().sum().item())
print(layer(values).double().sum().item())
""",
    "lazy modules": """
lazy = nn.Sequential(nn.LazyConv2d(3, 2), nn.Flatten(), nn.LazyLinear(4))
print(lazy(torch.ones(2, 3, 4, 4)), torch.rand(1))
print(nn.LazyLinear(4)(torch.ones(2, 3)), torch.rand(1), lazy(torch.ones(2, 3, 4, 4)))
""",
    "jit.trace": """
traced = torch.jit.trace(net, x)
print(traced.graph)
torch.equal(traced(x), net(x))
""",
    "jit.trace of a module of torch's": """
print(torch.jit.trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), x).code)
""",
    "jit.trace_module": """
traced = torch.jit.trace_module(net, {"forward": x})
print(traced.graph)
""",
    "jit.script": """
scripted = torch.jit.script(net)
print(scripted.code)
print(nn.Sequential(scripted)(x))
class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = scripted
    def forward(self, v):
        return self.inner(v) + 1
print(Holds()(x))
scripted(x)
""",
    "profiler": """
from torch.profiler import profile, ProfilerActivity
with profile(activities=[ProfilerActivity.CPU]) as prof:
    net(x)
sorted((each.key, each.count) for each in prof.key_averages())
""",
    "profiler of a compiled function": """
from torch.profiler import profile, ProfilerActivity
compiled = torch.compile(net, backend="eager")
compiled(x)
with profile(activities=[ProfilerActivity.CPU]) as prof:
    compiled(x)
print([each.count for each in prof.key_averages() if each.key == "aten::addmm"])
""",
    "function mode": """
from torch.overrides import TorchFunctionMode
class Counting(TorchFunctionMode):
    seen = []
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))
with Counting() as mode:
    y = net(x)
Counting.seen, y
""",
    "modes that stay on": """
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
net(x)
class Counting(TorchFunctionMode):
    seen = []
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))
class Ops(TorchDispatchMode):
    seen = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))
mode, ops = Counting(), Ops()
mode.__enter__()
ops.__enter__()
y = net(x)
""",
    "profiler that stays on": """
from torch.profiler import profile, ProfilerActivity
net(x)
prof = profile(activities=[ProfilerActivity.CPU])
prof.__enter__()
y = net(x)
""",
    "global hooks that stay on": """
from torch.nn.modules import module as modules
seen = []
handles = [
    modules.register_module_forward_pre_hook(lambda module, args: seen.append(("before", type(module).__name__))),
    modules.register_module_forward_hook(lambda module, args, out: seen.append(("after", type(module).__name__))),
]
y = net(x)
""",
    "compiled in an earlier cell": """
print(compiled(x))
v = x.clone().requires_grad_()
compiled(v).sum().backward()
v.grad
""",
    "dispatch mode": """
from torch.utils._python_dispatch import TorchDispatchMode
class Ops(TorchDispatchMode):
    seen = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))
with Ops():
    y = net(x)
Ops.seen, y
""",
    "flop counter": """
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as flops:
    net(x)
flops.get_total_flops(), flops.get_flop_counts()
""",
    "forward hooks": """
seen = []
net.lin.register_forward_hook(lambda module, args, out: seen.append(("after", tuple(out.shape))))
net.lin.register_forward_pre_hook(lambda module, args: seen.append(("before", len(args))))
net.register_forward_hook(lambda module, args, out: out * 2)
y = net(x)
seen, y
""",
    "hooks that print and count": """
count = 0
class Watcher:
    calls = 0
    def __call__(self, module, args, out):
        self.calls += 1
        print("hook", self.calls)
def counting(module, args):
    global count
    count += 1
watcher = Watcher()
net.lin.register_forward_hook(watcher)
net.register_forward_pre_hook(counting)
for _ in range(3):
    net(x)
count, watcher.calls
""",
    "backward hooks": """
seen = []
net.lin.register_full_backward_hook(lambda module, gi, go: seen.append(("module", tuple(go[0].shape))))
net.lin.weight.register_hook(lambda grad: seen.append(("tensor", tuple(grad.shape))))
net.lin.bias.register_post_accumulate_grad_hook(lambda p: seen.append(("accumulated", p.grad.sum().item())))
net(x).sum().backward()
seen
""",
    "a patch that stays on": """
calls, torchs = [], nn.Module.__call__
def patched(self, *args, **kwargs):
    calls.append(type(self).__name__)
    return torchs(self, *args, **kwargs)
print(torchs.__name__, torchs.__qualname__)
nn.Module.__call__ = patched
net(x)
print(len(calls) > 0)
""",
    "global hooks": """
from torch.nn.modules import module as modules
seen = []
handles = [
    modules.register_module_forward_pre_hook(lambda module, args: seen.append(("before", type(module).__name__))),
    modules.register_module_forward_hook(lambda module, args, out: seen.append(("after", type(module).__name__))),
    modules.register_module_full_backward_hook(lambda module, gi, go: seen.append(("back", type(module).__name__))),
]
try:
    net(x).sum().backward()
finally:
    for handle in handles:
        handle.remove()
seen
""",
    "saved tensors hooks": """
seen = []
def pack(t):
    seen.append(("pack", type(t).__name__, tuple(t.shape)))
    return t
def unpack(t):
    seen.append(("unpack", tuple(t.shape)))
    return t
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    net(x).sum().backward()
seen
""",
    "vmap": """
def one(v):
    return net(v).sum()
torch.vmap(one)(x)
""",
    "grad and jacrev": """
def loss(params, v):
    return torch.func.functional_call(net, params, (v,)).sum()
params = {name: p.detach() for name, p in net.named_parameters()}
print(torch.func.grad(loss)(params, x))
torch.func.jacrev(lambda v: net(v))(x[0])
""",
    "per-sample gradients": """
def loss(params, v):
    return torch.func.functional_call(net, params, (v.unsqueeze(0),)).sum()
params = dict(net.named_parameters())
{k: v.shape for k, v in torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(params, x).items()}
""",
    "jvp and forward mode": """
import torch.autograd.forward_ad as fwAD
with fwAD.dual_level():
    print(fwAD.unpack_dual(net(fwAD.make_dual(x, torch.ones_like(x)))).tangent)
torch.func.jvp(net, (x,), (torch.ones_like(x),))
""",
    "export": """
exported = torch.export.export(net, (x,))
print(exported.graph)
exported.module()(x)
""",
    "fx.symbolic_trace and make_fx": """
from torch.fx.experimental.proxy_tensor import make_fx
print(torch.fx.symbolic_trace(net).code)
print(make_fx(net)(x).code)
""",
    "DDP on gloo": """
import torch.distributed as dist
store = tempfile.mktemp()
dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
try:
    ddp = nn.parallel.DistributedDataParallel(net)
    y = ddp(x)
    y.sum().backward()
    print(y, net.lin.weight.grad)
finally:
    dist.destroy_process_group()
""",
    "FSDP on gloo": """
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh
store = tempfile.mktemp()
dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
try:
    fully_shard(net, mesh=init_device_mesh("cpu", (1,)))
    y = net(x)
    y.sum().backward()
    print(y, net.lin.weight.grad.to_local())
finally:
    dist.destroy_process_group()
""",
    "DataLoader workers": """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(32.).reshape(8, 4))
for (batch,) in DataLoader(data, batch_size=4, num_workers=1):
    print(net(batch).sum())
""",
    "fork": """
import multiprocessing
def work(queue):
    torch.set_num_threads(1)
    queue.put(net(x).tolist())
context = multiprocessing.get_context("fork")
queue = context.Queue()
child = context.Process(target=work, args=(queue,))
child.start()
print(queue.get(timeout=60))
child.join()
child.exitcode
""",
    "spawn": """
import torch.multiprocessing, operator
net(x)
context = torch.multiprocessing.get_context("spawn")
with context.Pool(1) as pool:
    result = pool.apply(operator.methodcaller("forward", x), (nn.Linear(4, 4).requires_grad_(False),))
result.shape
""",
    "threads": """
results = {}
def work(name):
    results[name] = net(x).sum().item()
workers = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for worker in workers: worker.start()
for worker in workers: worker.join()
net(x)
sorted(results.items())
""",
    "generate": """
from transformers import GPT2Config, GPT2LMHeadModel
config = GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=32, bos_token_id=0, eos_token_id=0)
gpt = GPT2LMHeadModel(config).eval()
ids = torch.tensor([[1, 2, 3]])
with torch.no_grad():
    print(gpt.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=3, do_sample=True, pad_token_id=0))
""",
    "flex_attention": """
warnings.simplefilter("ignore")
from torch.nn.attention.flex_attention import flex_attention
class Flex(nn.Module):
    def forward(self, q, k, v):
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j))
q = torch.randn(1, 1, 16, 16)
Flex()(q, q, q).sum()
""",
    "nested": """
nt = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)
net(nt).values()
""",
    "sparse": """
class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 3))
    def forward(self, a):
        return torch.sparse.mm(a, self.w)
Sparse()(torch.eye(4).to_sparse()), nn.EmbeddingBag(4, 3, sparse=True)(torch.tensor([[0, 1]]))
""",
    "complex": """
class Wave(nn.Module):
    def forward(self, v):
        return torch.fft.ifft(torch.fft.fft(v) * torch.exp(1j * torch.arange(4.)))
Wave()(x)
""",
    "quantized": """
warnings.simplefilter("ignore")
q = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
class Q(nn.Module):
    def forward(self, v):
        return v.dequantize() * 2
print(Q()(q))
quantized = torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
quantized(x)
""",
    "float8": """
class Eight(nn.Module):
    def forward(self, v):
        return v.to(torch.float8_e4m3fn).to(torch.float32) * 2
Eight()(x)
""",
    "autocast": """
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = net(x)
y.dtype, y
""",
    "checkpointing": """
from torch.utils.checkpoint import checkpoint
calls = []
class Counted(Net):
    def forward(self, v):
        calls.append(1)
        return super().forward(v)
counted = Counted()
for reentrant in (False, True):
    v = x.clone().requires_grad_()
    checkpoint(counted, v, use_reentrant=reentrant).sum().backward()
    print(len(calls), v.grad.sum().item())
""",
    "torch.compile in the cell": """
compiled = torch.compile(net, backend="aot_eager")
print(compiled(x))
compiled(torch.randn(3, 4))
compiled(torch.randn(5, 4))
""",
    "torch.compile with inductor": """
import torch._functorch.config, torch._inductor.config
with torch._inductor.config.patch(fx_graph_cache=False), torch._functorch.config.patch(enable_autograd_cache=False):
    compiled = torch.compile(net)
    v = x.clone().requires_grad_()
    compiled(v).sum().backward()
v.grad
""",
    "compile counters": """
from torch._dynamo.testing import CompileCounter
counter = CompileCounter()
compiled = torch.compile(net, backend=counter)
compiled(x); compiled(x); compiled(torch.randn(3, 4))
counter.frame_count, counter.op_count, dict(torch._dynamo.utils.counters["stats"])
""",
    "fail_on_recompile": """
compiled = torch.compile(net, backend="eager")
compiled(x)
with torch.compiler.set_stance("fail_on_recompile"):
    print(compiled(x))
with torch.compiler.set_stance("force_eager"):
    net(x)
""",
    "deepcopy and pickle": """
net(x)
again = pickle.loads(pickle.dumps(net.state_dict()))
other = copy.deepcopy(net)
print(sorted(vars(other)) == sorted(vars(net)), torch.equal(other(x), net(x)))
whole = pickle.loads(pickle.dumps(nn.Sequential(nn.Linear(4, 4))))
buffer = __import__("io").BytesIO()
torch.save(nn.Linear(4, 4), buffer)
buffer.tell() > 0, whole(x).shape
""",
    "weakref": """
gone = []
other = Net()
weakref.finalize(other, gone.append, "model")
out = other(x)
weakref.finalize(out, gone.append, "output")
del other, out
""",
    "custom op": """
calls = []
lib = torch.library.Library("feature_cells", "FRAGMENT")
if not hasattr(torch.ops.feature_cells, "twice"):
    torch.library.define("feature_cells::twice", "(Tensor v) -> Tensor", lib=lib)
    torch.library.impl("feature_cells::twice", "cpu", lambda v: (calls.append(1), v * 2)[1], lib=lib)
    torch.library.register_fake("feature_cells::twice", lambda v: torch.empty_like(v), lib=lib)
class Own(nn.Module):
    def forward(self, v):
        return torch.ops.feature_cells.twice(v) + 1
print(Own()(x))
del lib
len(calls)
""",
    "autograd.Function": """
log = []
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        log.append("forward")
        return v * v
    @staticmethod
    def backward(ctx, g):
        log.append("backward")
        return 2 * g * ctx.saved_tensors[0]
class Sq(nn.Module):
    def forward(self, v):
        return Square.apply(v)
v = x.clone().requires_grad_()
y = Sq()(v)
y.sum().backward()
log, v.grad, y.grad_fn.name()
""",
    "inference mode": """
with torch.inference_mode():
    y = net(x)
print(y.is_inference(), y)
with torch.no_grad():
    z = net(x)
z.requires_grad, z.is_inference()
""",
    "deterministic algorithms": """
torch.use_deterministic_algorithms(True)
try:
    class Put(nn.Module):
        def forward(self, v):
            return v.clone().index_add_(0, torch.tensor([0, 0]), torch.ones(2, 4))
    print(Put()(x), torch.are_deterministic_algorithms_enabled())
finally:
    torch.use_deterministic_algorithms(False)
""",
    "random numbers": """
drop = nn.Dropout(0.5)
print(drop(x), torch.rand(2))
generator = torch.Generator().manual_seed(3)
class Noise(nn.Module):
    def forward(self, v):
        return v + torch.rand(v.shape, generator=generator)
print(Noise()(x), torch.rand(2, generator=generator))
import random, numpy
random.seed(1); numpy.random.seed(1)
net(x)
random.random(), numpy.random.rand()
""",
    "warnings": """
class Warns(nn.Module):
    def forward(self, v):
        warnings.warn("from the model", UserWarning)
        return v * 2
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    Warns()(x); Warns()(x); net(x)
print([str(each.message) for each in caught])
with warnings.catch_warnings():
    warnings.simplefilter("error")
    net(x)
    nn.Linear(4, 4)(x)
    try:
        Warns()(x)
    except UserWarning as error:
        print("raised", error)
""",
    "warnings beside compiles": """
def warn():
    warnings.warn("shown once")
class Plain(nn.Module):
    def forward(self, v):
        return v + 1
for _ in range(3):
    warn()
    Plain()(x)
""",
    "warnings given to a caller": """
class Warns(nn.Module):
    def __init__(self, level):
        super().__init__()
        self.level = level
    def forward(self, v):
        warnings.warn("to a caller", UserWarning, stacklevel=self.level)
        return v * 2
class Around(Warns):
    def forward(self, v):
        return Warns(self.level)(v)
def told(model):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model(x)
    return [(each.filename.rpartition("site-packages/")[2], each.lineno) for each in caught]
for level in range(1, 7):
    print(level, told(Warns(level)), told(nn.Sequential(Warns(level))), told(Around(level)))
""",
    "traceback.print_exc": """
import traceback
class Fails(nn.Module):
    def forward(self, v):
        v = v + 1
        raise ValueError("on purpose")
def printed(error):
    print(error, [(each.name, each.lineno) for each in traceback.extract_tb(error.__traceback__)])
    print([(frame.f_code.co_name, line) for frame, line in traceback.walk_tb(error.__traceback__)])
    print(traceback.format_exc().count("File "))
for model in (Fails(), nn.Sequential(Fails()), net, nn.Linear(3, 4)):
    try:
        model(torch.ones(2, 3))
    except Exception as error:
        printed(error)
net(x)
""",
    "warnings once a line": """
class Warns(nn.Module):
    def forward(self, v):
        warnings.warn("once", UserWarning)
        return v * 2
warns = Warns()
for _ in range(2):
    warns(x)
    net(x)
""",
    "sys.settrace": """
names = []
def tracer(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.endswith(("nn/modules/module.py", "nn/modules/linear.py")):
        names.append(frame.f_code.co_name)
    if event == "call" and frame.f_code is Net.forward.__code__:
        names.append("Net.forward")
sys.settrace(tracer)
try:
    net(x)
finally:
    sys.settrace(None)
names
""",
    "cProfile": """
import cProfile, pstats
with cProfile.Profile() as p:
    net(x)
counts = {(name, calls) for (_, _, name), (calls, *_) in pstats.Stats(p).stats.items()}
sorted(each for each in counts if each[0] in ("forward", "_call_impl", "_wrapped_call_impl"))
""",
    "start method": """
import multiprocessing
multiprocessing.set_start_method(None, force=True)
net(x)
""",
    "faulthandler": """
import faulthandler
was = faulthandler.is_enabled()
net(x)
was == faulthandler.is_enabled()
""",
    "environment and recursion limit": """
os.environ["MY_OWN"] = "1"
os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
def deep(n):
    return n if n == 0 else deep(n - 1)
net(x)
sys.getrecursionlimit(), sorted(k for k in os.environ if "INDUCTOR" in k), deep(100)
""",
    "recursion error": """
class Deep(nn.Module):
    def forward(self, v, n=10**6):
        return self.forward(v, n - 1)
try:
    Deep()(x)
except RecursionError as error:
    print("deep:", str(error)[:32])
""",
    "errors of the model": """
class Fails(nn.Module):
    def forward(self, v):
        return self.missing(v)
net(x)
try:
    net(torch.ones(2, 3))
except RuntimeError as error:
    print(error)
Fails()(x)
""",
    "anomaly mode": """
class Bad(nn.Module):
    def forward(self, v):
        return torch.sqrt(v) * 0
with torch.autograd.detect_anomaly(check_nan=True):
    v = torch.zeros(2, requires_grad=True)
    try:
        Bad()(v).sum().backward()
    except RuntimeError as error:
        print(error)
""",
    "default device and dtype": """
torch.set_default_dtype(torch.float64)
try:
    with torch.device("meta"):
        made = nn.Linear(4, 4)
    print(made(torch.ones(2, 4, device="meta")).device)
    print(nn.Linear(4, 4)(torch.ones(2, 4)).dtype)
finally:
    torch.set_default_dtype(torch.float32)
""",
    "tensor subclass": """
class Logged(torch.Tensor):
    log = []
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})
y = net(x.as_subclass(Logged))
Logged.log, type(y).__name__
""",
    "optimizer and training": """
optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
net.lin.weight
""",
    "await": """
import asyncio
async def served(v):
    await asyncio.sleep(0)
    return net(v)
await asyncio.gather(served(x), served(x * 2))
""",
    "parametrized and weight_norm": """
warnings.simplefilter("ignore")
normed = nn.utils.weight_norm(nn.Linear(4, 4))
spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
print(normed(x), spectral(x))
normed(x).sum().backward()
normed.weight_g.grad
""",
    "stdout and logging": """
import logging
logger = logging.getLogger("mine")
handler = logging.StreamHandler(sys.stdout)
logger.addHandler(handler)
class Prints(nn.Module):
    def forward(self, v):
        print("forward", tuple(v.shape))
        logger.warning("logged")
        return v
Prints()(x); net(x)
print("end", file=sys.stderr)
logger.removeHandler(handler)
""",
}

BEFORE = {
    "compiled in an earlier cell": """
compiled = torch.compile(net, backend="aot_eager")
v = x.clone().requires_grad_()
compiled(v).sum().backward()
compiled(x)
""",
    "flex_attention": """
os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
""",
}
"""What runs in a plain cell before, where something must be there already."""

AFTER = {
    "a patch that stays on": """
calls.clear()
net(x)
nn.Module.__call__ = nn.Module._wrapped_call_impl
calls
""",
    "start method": """
multiprocessing.get_start_method(allow_none=True), multiprocessing.set_start_method("fork")
""",
    "modes that stay on": """
ops.__exit__(None, None, None)
mode.__exit__(None, None, None)
Counting.seen, Ops.seen
""",
    "profiler that stays on": """
prof.__exit__(None, None, None)
sorted((each.key, each.count) for each in prof.key_averages())
""",
    "weakref": """
gc.collect()
sorted(gone)
""",
    "global hooks that stay on": """
for handle in handles:
    handle.remove()
seen
""",
}
"""What runs in a plain cell afterwards: its output is compared too."""

DIFFED = (
    "jit.trace", "profiler", "profiler that stays on", "function mode", "dispatch mode", "modes that stay on",
    "forward hooks", "hooks that print and count", "backward hooks", "global hooks", "global hooks that stay on",
    "checkpointing", "torch.compile in the cell", "compiled in an earlier cell", "compile counters",
    "random numbers", "environment and recursion limit", "warnings", "optimizer and training", "start method",
    "DDP on gloo", "autograd.Function", "custom op", "stdout and logging",
)  # fmt: skip
"""Cells that are tried with ``--diff`` too: its runs must not be seen either."""

LONG = {
    "generate", "torch.compile with inductor", "spawn", "flex_attention", "warnings given to a caller",
}  # fmt: skip
"""Cells of several seconds: they run with --long."""

LONG_DIFFED = {
    "warnings", "hooks that print and count", "backward hooks", "global hooks", "global hooks that stay on",
    "torch.compile in the cell", "compiled in an earlier cell", "stdout and logging", "DDP on gloo",
    "optimizer and training", "autograd.Function",
}  # fmt: skip
"""Cells whose comparison takes longest; what they watch, the others of :data:`DIFFED` watch too."""

ONCE = {
    "jit.trace", "jit.trace of a module of torch's", "jit.trace_module", "jit.script", "jvp and forward mode",
    "torch.compile with inductor", "torch.compile in the cell", "compiled in an earlier cell", "compile counters",
    "profiler of a compiled function", "fail_on_recompile",
}  # fmt: skip
"""Cells of which torch says or times something the first time in a process only: they run once before."""

OPTIONS = {"environment and recursion limit": "--lower inductor"}
"""How far a cell is lowered; Dynamo alone says what the others ask."""

NOT_LEFT = {
    "flex_attention": {"counters", "compile times", "metrics"},
    "compiled in an earlier cell": {"entries", "metrics"},
    "torch.compile with inductor": {"compile times", "environment"},
}
"""What is not compared. torch compiles a plain ``flex_attention`` itself; under the magic it is traced instead. What
was compiled before is compiled once more to be looked at: torch cannot remove the empty entry, and lists the backward.
Inductor times some of its parts, and loads its kernels, once a process."""
