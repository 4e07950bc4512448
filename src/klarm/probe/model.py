"""The model: which part of it to call, whether it can be measured, and how to leave no trace."""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

_WRAPPERS = ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine", "OptimizedModule")
_SHARDED = (
    "the probe cannot measure this model: {how}, so every rank would have to take part in each "
    "forward pass. kl_probe is not logged. It works if the parameters are not sharded (DDP, ZeRO-1 "
    "or ZeRO-2)"
)


def unwrapped(model: Any) -> Any:
    """Return the model without wrappers, which synchronise ranks or compile for each shape."""
    while type(model).__name__ in _WRAPPERS:
        inner = getattr(model, "_orig_mod", None)
        model = inner if inner is not None else model.module
    return model


def refusal(model: Any) -> str:
    """Return why a model cannot be measured by one rank alone; empty if it can."""
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        return _SHARDED.format(how="FSDP shards its parameters")
    for parameter in model.parameters():
        if hasattr(parameter, "ds_id"):
            return _SHARDED.format(how="DeepSpeed ZeRO-3 shards its parameters")
        if type(parameter).__name__ == "DTensor" or type(parameter.data).__name__ == "DTensor":
            return _SHARDED.format(how="its parameters are distributed tensors (FSDP2, TP)")
    return ""


def has_plain_start(model: Any) -> bool:
    """Return whether the model without its adapters equals the start of training.

    This holds for PEFT's adapters, unless weights of the base model are also trained.
    """
    if not (hasattr(model, "disable_adapter") and hasattr(model, "peft_config")):
        return False
    prefix = getattr(getattr(model, "base_model", None), "prefix", "")
    if not prefix:
        return False
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    return all(prefix in name or "modules_to_save" in name for name in trained)


@contextlib.contextmanager
def without_adapters(model: Any) -> Iterator[None]:
    """Disable adapters, and preserve exactly which weights are trained."""
    trained = [(weight, weight.requires_grad) for weight in model.parameters()]
    try:
        with model.disable_adapter():
            yield
    finally:
        for weight, was in trained:  # enabling adapters again unfreezes all of their weights
            if weight.requires_grad != was:
                weight.requires_grad_(was)


@contextlib.contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Run the model in eval mode without gradients, with no effect on training.

    The random states of Python, numpy and torch (on all devices of the model) and the mode of every
    module are restored. Autocast is off inside, because its cache would keep weights that were cast
    without a gradient.
    """
    import torch

    modes = [(module, module.training) for module in model.modules()]
    types = {weight.device.type for weight in model.parameters()} | {"cpu"}
    numpy = sys.modules.get("numpy")  # if numpy is not loaded, its state is not in use
    of_python = random.getstate()
    of_numpy = numpy.random.get_state() if numpy is not None else None
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_random_states(model))
            stack.enter_context(torch.no_grad())
            for type_ in types - {"meta"}:
                stack.enter_context(torch.autocast(type_, enabled=False))
            model.eval()
            yield
    finally:
        for module, was in modes:
            module.training = was
        random.setstate(of_python)
        if numpy is not None:
            numpy.random.set_state(of_numpy)


@contextlib.contextmanager
def _random_states(model: Any) -> Iterator[None]:
    """Preserve torch's random states of the CPU and of every device with weights of the model."""
    import torch

    devices = {weight.device for weight in model.parameters() if weight.device.type != "cpu"}
    kept: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (torch.set_rng_state, (torch.get_rng_state(),))
    ]
    for device in devices - {torch.device("meta")}:
        of_type = getattr(torch, device.type, None)
        if device.type == "mps":
            kept.append((of_type.set_rng_state, (of_type.get_rng_state(),)))  # type: ignore[union-attr]
        elif hasattr(of_type, "get_rng_state"):
            kept.append((of_type.set_rng_state, (of_type.get_rng_state(device), device)))  # type: ignore[union-attr]
    try:
        yield
    finally:
        for put_back, state in kept:
            put_back(*state)


class Caller:
    """Calls a model with token ids and returns the logits of the requested positions."""

    def __init__(self, model: Any) -> None:
        inner = model.get_base_model() if hasattr(model, "get_base_model") else model
        try:
            names = inspect.signature(inner.forward).parameters
        except (TypeError, ValueError):
            names = {}  # type: ignore[assignment]
        self._model = model
        self._by_name = "input_ids" in names
        self._masks = "attention_mask" in names
        self._caches = "use_cache" in names
        self._keeps = "logits_to_keep" in names
        first = next(model.parameters(), None)
        self.device = "cpu" if first is None else first.device
        embeddings = getattr(inner, "get_input_embeddings", None)
        if (
            embeddings is not None
            and (weights := next(embeddings().parameters(), None)) is not None
        ):
            self.device = weights.device  # where a model is spread over several

    def logits(self, rows: list[tuple[int, ...]], first: int) -> Any:
        """Return the logits of texts, rows × positions × vocabulary, from position `first` on.

        Texts are padded on the right, where padding does not affect a causal model.
        """
        import torch

        longest = max(map(len, rows))
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros((len(rows), longest), dtype=torch.long)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = torch.tensor(row)
            mask[at, : len(row)] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        options: dict[str, Any] = {}
        if self._masks:
            options["attention_mask"] = mask
        if self._caches:
            options["use_cache"] = False
        if self._keeps:
            options["logits_to_keep"] = longest - first
        out = self._model(input_ids=ids, **options) if self._by_name else self._model(ids)
        logits = getattr(out, "logits", None)
        if logits is None:
            logits = out[0] if isinstance(out, (tuple, list)) else out
        return logits if logits.shape[1] == longest - first else logits[:, first:]


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that a device or the host ran out of memory."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and (
        "out of memory" in text or "can't allocate memory" in text
    )


def synchronize(model: Any) -> None:
    """Wait for queued work of training, so that its time is not counted as the probe's."""
    import torch

    for device in {weight.device for weight in model.parameters()}:
        of_type = getattr(torch, device.type, None)
        if device.type not in ("cpu", "meta") and hasattr(of_type, "synchronize"):
            of_type.synchronize()  # type: ignore[union-attr]


def free_memory() -> None:
    """Release the memory that torch has cached on the devices."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
