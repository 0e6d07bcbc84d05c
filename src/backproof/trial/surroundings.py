"""Torch's and the process's global settings, before and after a call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

_DEVICES = ("cpu", "cuda")


def surroundings() -> Mapping[str, Any]:
    """Settings that a normal op leaves alone, by the name that a user knows."""
    return {
        "torch.get_default_dtype()": torch.get_default_dtype(),
        "torch.is_grad_enabled()": torch.is_grad_enabled(),
        "torch.is_inference_mode_enabled()": torch.is_inference_mode_enabled(),
        "torch.get_num_threads()": torch.get_num_threads(),
        "torch.get_deterministic_debug_mode()": torch.get_deterministic_debug_mode(),
        "torch.is_anomaly_enabled()": torch.is_anomaly_enabled(),
        "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
        **{
            f"torch.is_autocast_enabled({device!r})": torch.is_autocast_enabled(device)
            for device in _DEVICES
        },
        **{
            f"torch.get_autocast_dtype({device!r})": torch.get_autocast_dtype(device)
            for device in _DEVICES
        },
        "the working folder": str(Path.cwd()),
    }


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is not as it was, each with both values."""
    return [
        f"{name} is {after[name]}, was {before[name]}"
        for name in before
        if after[name] != before[name]
    ]
