"""Lines about the command line, the port, the checkpoint, kernels and their builds."""

from tui.sglang.problem_rule import N, rule

_ARGPARSE = (
    r"^[\w./ -]{1,200}: error: (?:unrecognized arguments|argument |ambiguous option|the following arguments are"
    r"|one of the arguments|not allowed|invalid choice|.{0,80}expected )"
)
_START = (
    rule("bad-flag", ": error: ", _ARGPARSE),
    rule("bad-flag", "Unknown configuration"),
    rule("bad-flag", "unexpected keyword argument", r"ServerArgs\.__init__\(\) got an unexpected keyword argument"),
    rule("port-in-use", "address already in use", r"(?:address already in use|Address already in use)"),
    rule("port-in-use", "Address already in use"),
    rule("port-in-use", "EADDRINUSE"),
    rule("port-in-use", "is already in use", r"[Pp]ort\b.{0,60}is already in use"),
    rule("port-in-use", "is not available", r"[Pp]ort\b.{0,60}(?:is not available|unavailable)"),
    rule("port-forbidden", "while attempting to bind", r"\[Errno (?:13|99)\]"),
    rule("model-gated", "trying to access a gated repo"),
    rule("model-gated", "GatedRepoError"),
    rule("model-gated", "401 Client Error"),
    rule("model-gated", "403 Client Error"),
    rule("model-gated", "Access to model", r"Access to model .{0,200} is restricted"),
    rule("model-offline", "We couldn't connect to"),
    rule("model-offline", "LocalEntryNotFoundError"),
    rule("model-offline", "OfflineModeIsEnabled"),
    rule("model-offline", "outgoing traffic has been disabled"),
    rule("model-missing", "is not a local folder and is not a valid model identifier"),
    rule("model-missing", "RepositoryNotFoundError"),
    rule("model-missing", "404 Client Error"),
    rule("model-missing", "does not appear to have a file named"),
    rule("model-missing", "Cannot find any model weights"),
    rule("model-missing", "EntryNotFoundError", r"(?<!Local)EntryNotFoundError"),
    rule(
        "model-missing",
        "No such file or directory",
        r"No such file or directory: .{0,400}(?:config\.json|safetensors|\.bin|\.gguf|tokenizer)",
    ),
    rule("model-missing", "Can't load", r"Can't load (?:the configuration|tokenizer|the model|config)"),
    rule("model-bad-name", "HFValidationError"),
    rule("model-bad-name", "Repo id must"),
    rule("model-bad-name", "Incorrect path_or_model_id"),
    rule("model-unsupported", "does not recognize this architecture"),
    rule("model-unsupported", "are not supported for now"),
    rule(
        "model-unsupported",
        "Model architectures",
        r"Model architectures .{0,400} (?:are not supported|failed to be inspected)",
    ),
    rule("model-unsupported", "has no SGLang implementation"),
    rule("model-unsupported", "Unrecognized model in"),
    rule(
        "model-needs-code",
        "trust_remote_code=True",
        r"(?:requires you to execute|set the option|pass the argument).{0,200}trust_remote_code=True|custom code",
    ),
    rule("weights-broken", "SafetensorError"),
    rule("weights-broken", "Error while deserializing header"),
    rule("weights-broken", "PytorchStreamReader failed"),
    rule("weights-broken", "invalid load key"),
    rule("weights-mismatch", "size mismatch for"),
    rule("weights-mismatch", "param_data.shape == loaded_weight.shape"),
    rule("weights-mismatch", "Attempted to load weight"),
    rule("weights-mismatch", "The size of tensor a", r"^(?!.*at non-singleton)"),
    rule(
        "context-too-long",
        "is greater than the derived context_length",
        rf"context_length \((?P<context_length>{N})\).*?derived context_length \((?P<derived>{N})\)",
        optional=True,
    ),
    rule("shape-mismatch", "shapes cannot be multiplied"),
    rule("shape-mismatch", "at non-singleton dimension", exception=True),
)

_FLASHINFER = r"[Ff]lash[Ii]nfer.{0,160}(?:[Ee]rror|[Ff]ailed|not supported|Unsupported)"
_KERNEL = (
    rule(
        "ptxas",
        "ptxas",
        r"ptxas (?:fatal|error|exited|failed)|ptxas\b.{0,200}(?:not defined for option|failed with error|No such file)",
    ),
    rule("ptxas", "PTX codegen error"),
    rule("no-kernel-image", "no kernel image is available"),
    rule(
        "arch-unsupported",
        "sm_",
        r"(?:not compatible|does not support|is not supported|not defined|unsupported|only supports?|not compiled)"
        r".{0,120}\bsm_\d|\bsm_\d+a?\b.{0,120}(?:is not (?:supported|compatible|defined)|unsupported|not compatible)",
        exception=True,
    ),
    rule("arch-unsupported", "with CUDA capability sm_", r"capability sm_\d+.{0,40} is not compatible"),
    rule(
        "arch-unsupported",
        "ompute capability",
        r"[Cc]ompute capability.{0,120}(?:not supported|required|at least|too (?:low|old)|or higher)"
        r"|(?:requires|only supported|supported only|at least).{0,80}[Cc]ompute capability",
        exception=True,
    ),
    rule("arch-unsupported", "Unsupported ", r"Unsupported (?:GPU |gpu )?architecture"),
    rule(
        "dtype-unsupported",
        "not implemented for '",
        r"not implemented for '(?:BFloat16|Half|Float8\w*|Float4\w*|Byte)",
        exception=True,
    ),
    rule(
        "dtype-unsupported",
        "quantization method",
        r"quantization method .{0,120}(?:is not supported|not supported)",
        exception=True,
    ),
    rule("dtype-unsupported", "Unsupported ", r"Unsupported (?:dtype|data type|quantization|kv[ _]cache[ _]dtype)"),
    rule("triton-resources", "out of resource: shared memory"),
    rule("triton-resources", "OutOfResources"),
    rule("triton-error", "Triton Error"),
    rule("triton-error", "CompilationError", r"(?:triton.{0,80}|^)CompilationError"),
    rule("triton-error", "PassManager::run failed"),
    rule("triton-error", "PTXASError"),
    rule("jit-build-failed", "ninja: build stopped"),
    rule("jit-build-failed", "Ninja is required"),
    rule("jit-build-failed", "Ninja build failed"),
    rule("jit-build-failed", "Error building extension"),
    rule("jit-build-failed", "nvcc fatal"),
    rule("jit-build-failed", "Could not find nvcc"),
    rule("jit-build-failed", "nvcc: not found"),
    rule("jit-build-failed", "CUDA_HOME environment variable is not set"),
    rule("jit-build-failed", "NVRTC", r"NVRTC.{0,80}(?:[Ee]rror|failed)|NVRTC_ERROR"),
    rule("jit-build-failed", "fatal error: ", r"fatal error: [\w./-]+\.(?:h|cuh|hpp): No such file"),
    rule("flashinfer-error", "FlashInfer", _FLASHINFER, alone=True),
    rule("flashinfer-error", "flashinfer", _FLASHINFER, alone=True),
    rule("library-missing", "cannot open shared object file"),
    rule("library-missing", "undefined symbol"),
    rule("library-missing", "ModuleNotFoundError"),
    rule("library-missing", "ImportError", r"(?<![\w.])ImportError: "),
    rule("library-missing", "version `GL", r"version `GLIBC\w*_[\d.]+' not found"),
)

START_RULES = (*_START, *_KERNEL)
